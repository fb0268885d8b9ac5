//! Publishes as fast as the broker takes: the same properties as the relay's messages, mandatory, persistent, confirmed.

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{
    confirms::Confirms,
    link::Link,
    wire::{BASIC, BODY, CHANNEL, HEADER, put_frame, put_method, put_short_string, put_sized, put_text_field},
};
use crate::emitted::{Emitted, SoFar};

/// Most bytes of one write to the socket.
const WRITE_BYTES: usize = 256 * 1024;

/// What a message says beside its body, its id and that it is persistent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Says {
    pub(crate) content_type: bool,
    pub(crate) timestamp: bool,
    /// The property `type`.
    pub(crate) kind: bool,
    pub(crate) app_id: bool,
    /// The header `x-outbox-seq`.
    pub(crate) seq: bool,
    /// The headers `aggregate_type` and `aggregate_id`.
    pub(crate) aggregate: bool,
    /// Not a part of the message, but of how it is published.
    pub(crate) mandatory: bool,
}

impl Says {
    pub(crate) const ALL: Self = Self {
        content_type: true,
        timestamp: true,
        kind: true,
        app_id: true,
        seq: true,
        aggregate: true,
        mandatory: true,
    };
}

/// What it took until the last confirm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) messages: u64,
    pub(crate) took: Duration,
    /// CPU time of this client.
    pub(crate) cpu: Duration,
}

/// Publishes a message with a body of `body` bytes to `exchange` for each event that is emitted, until there are no more, with at
/// most `window` of them unconfirmed.
///
/// Blocks the thread that calls it.
pub(crate) fn publish(
    link: &mut Link,
    exchange: &str,
    body: usize,
    says: Says,
    emitted: &Emitted,
    window: u64,
) -> Published {
    link.call(CHANNEL, (85, 10), |out| out.push(0)); // confirm.select
    let mut messages = Messages::new(exchange, body, says, window);
    let mut confirms = Confirms::default();
    let mut published = 0;
    let (start, cpu) = (Instant::now(), cpu_of_this_thread());
    loop {
        let SoFar { events, is_all } = emitted.so_far();
        if is_all && confirms.count() == events {
            break;
        }
        // Not one by one as confirms come in: a write of many costs little more than a write of one.
        let next = messages.most.min(events - published);
        if next > 0 && published - confirms.count() + next <= window {
            link.write(messages.numbered(published, next));
            published += next;
            continue;
        }
        if published == confirms.count() {
            emitted.wait_for_more_than(published);
            continue;
        }
        link.read();
        while let Some((kind, payload)) = link.received.next_frame() {
            confirms.take(kind, payload);
        }
    }
    Published { messages: published, took: start.elapsed(), cpu: cpu_of_this_thread() - cpu }
}

/// Publishes a message for each event as soon as it is emitted, until there are no more, and throws the confirms away. The messages are
/// with the broker as long as the link is open.
///
/// Blocks the thread that calls it.
pub(crate) fn publish_at_once(link: &mut Link, exchange: &str, body: usize, says: Says, emitted: &Emitted) {
    link.call(CHANNEL, (85, 10), |out| out.push(0)); // confirm.select
    let mut messages = Messages::new(exchange, body, says, u64::MAX);
    let mut confirms = link.socket.try_clone().expect("a second handle of the socket");
    thread::spawn(move || io::copy(&mut confirms, &mut io::sink())); // ends with the connection
    let mut published = 0;
    loop {
        emitted.wait_for_more_than(published);
        let next = messages.most.min(emitted.so_far().events - published);
        if next == 0 {
            return;
        }
        link.write(messages.numbered(published, next));
        published += next;
    }
}

/// The frames of several messages, one behind the other. Only what differs is rewritten.
struct Messages {
    bytes: Vec<u8>,
    /// Size of each, frames included.
    size: usize,
    /// How many there are.
    most: u64,
    /// Where the number of a message is in its frames: in the header `x-outbox-seq`, and in hexadecimal in `message_id`.
    seq_at: Option<usize>,
    id_at: usize,
}

/// The `message_id` of the message with this number.
pub(crate) fn id_of(number: u64) -> Uuid {
    Uuid::from_u128(Uuid::parse_str(Messages::ID).expect("an id").as_u128() | u128::from(number))
}

impl Messages {
    /// Version 7, variant 2; the last twelve digits are the number.
    const ID: &str = "019a0000-0000-7000-8000-000000000000";
    const ID_DIGITS: usize = 12;

    fn new(exchange: &str, body: usize, says: Says, window: u64) -> Self {
        let mut one = Vec::new();
        put_method(&mut one, CHANNEL, (BASIC, 40), |out| {
            out.extend([0, 0]);
            put_short_string(out, exchange);
            put_short_string(out, "order.moved");
            out.push(u8::from(says.mandatory));
        });
        put_frame(&mut one, HEADER, CHANNEL, |out| put_header(out, body, says));
        put_frame(&mut one, BODY, CHANNEL, |out| out.resize(body, b'x'));
        let find = |text: &str| one.windows(text.len()).position(|part| part == text.as_bytes());
        let seq_at = find("x-outbox-seq").map(|at| at + "x-outbox-seq".len() + 1);
        let id_at = find(Self::ID).expect("it is there") + Self::ID.len() - Self::ID_DIGITS;
        let size = one.len();
        // A quarter of the window: the broker always has the other three quarters to work on.
        let most = ((WRITE_BYTES / size) as u64).clamp(1, (window / 4).max(1));
        let bytes = one.repeat(usize::try_from(most).expect("at most 256 KiB of them"));
        Self { bytes, size, most, seq_at, id_at }
    }

    /// The frames of `count` messages, numbered from `first`.
    fn numbered(&mut self, first: u64, count: u64) -> &[u8] {
        for (message, number) in self.bytes.chunks_exact_mut(self.size).zip(first..first + count) {
            if let Some(at) = self.seq_at {
                let seq = message.get_mut(at..at + 8).expect("part of the message");
                seq.copy_from_slice(&number.to_be_bytes());
            }
            let mut digits = number;
            for digit in message.iter_mut().skip(self.id_at).take(Self::ID_DIGITS).rev() {
                *digit = b"0123456789abcdef".get((digits & 0xF) as usize).copied().expect("sixteen digits");
                digits >>= 4;
            }
        }
        let count = usize::try_from(count).expect("at most as many as there are");
        self.bytes.get(..count * self.size).expect("at most as many as there are")
    }
}

/// The content header: the properties that the relay sets, for an event with a type and a key, as far as they are said.
fn put_header(out: &mut Vec<u8>, body: usize, says: Says) {
    const PERSISTENT: u8 = 2;
    let has_headers = says.seq || says.aggregate;
    // content-type, headers, delivery-mode, message-id, timestamp, type, app-id
    let flags = u16::from(says.content_type) << 15
        | u16::from(has_headers) << 13
        | 1 << 12
        | 1 << 7
        | u16::from(says.timestamp) << 6
        | u16::from(says.kind) << 5
        | u16::from(says.app_id) << 3;
    out.extend(BASIC.to_be_bytes());
    out.extend([0, 0]); // weight
    out.extend((body as u64).to_be_bytes());
    out.extend(flags.to_be_bytes());
    if says.content_type {
        put_short_string(out, "application/json");
    }
    if has_headers {
        put_sized(out, |out| {
            if says.seq {
                put_short_string(out, "x-outbox-seq");
                out.push(b'l');
                out.extend([0; 8]);
            }
            if says.aggregate {
                put_text_field(out, "aggregate_type", "order");
                put_text_field(out, "aggregate_id", "12345");
            }
        });
    }
    out.push(PERSISTENT);
    put_short_string(out, Messages::ID);
    if says.timestamp {
        out.extend(1_800_000_000_u64.to_be_bytes());
    }
    if says.kind {
        put_short_string(out, "OrderMoved");
    }
    if says.app_id {
        put_short_string(out, "outbox-relay");
    }
}

/// The first field of `schedstat` is nanoseconds on a CPU (Linux, Documentation/scheduler/sched-stats).
fn cpu_of_this_thread() -> Duration {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").expect("/proc is there");
    let nanoseconds = schedstat.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number of nanoseconds"))
}
