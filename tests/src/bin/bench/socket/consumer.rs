//! Consumes a queue on a thread of its own and tells when each message came.

use std::{
    io::Write,
    net::{Shutdown, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use uuid::Uuid;

use super::{
    link::{Link, Queue},
    received::Reader,
    wire::{BASIC, BODY, CHANNEL, HEADER, METHOD, put_method, put_short_string, put_sized},
};

/// Whether the broker waits for the consumer's acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acks {
    /// A message is done when it is sent.
    No,
    /// At most so many are sent and not acknowledged; each read from the socket is acknowledged as one.
    Prefetch(u16),
}

/// A message that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// Its `message_id`, which is the event's id.
    pub(crate) id: Uuid,
    /// When the read from the socket returned that brought its last byte.
    pub(crate) at: Instant,
}

/// A consumer, until it is dropped. Its queue stays.
pub(crate) struct Consumer {
    socket: TcpStream,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Consumer {
    /// Declares exchange and queue, binds them, and consumes. Each message is given to `on_delivery` on the consumer's
    /// thread, in the order of the queue; as long as that takes, nothing is read.
    pub(crate) fn start(
        url: &str,
        queue: &Queue,
        acks: Acks,
        on_delivery: impl FnMut(Delivery) + Send + 'static,
    ) -> Self {
        let mut link = Link::open(url);
        link.declare(queue);
        if let Acks::Prefetch(count) = acks {
            link.call(CHANNEL, (BASIC, 10), |out| {
                out.extend([0; 4]);
                out.extend(count.to_be_bytes());
                out.push(0);
            });
        }
        link.call(CHANNEL, (BASIC, 20), |out| {
            /// Bit of the flags.
            const NO_ACK: u8 = 0b10;
            out.extend([0, 0]);
            put_short_string(out, &queue.name);
            put_short_string(out, "bench");
            out.push(if acks == Acks::No { NO_ACK } else { 0 });
            put_sized(out, |_| ());
        });
        let socket = link.socket.try_clone().expect("a second handle of the socket");
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_ending);
        let thread = thread::spawn(move || consume(link, acks, &ending, on_delivery));
        Self { socket, is_ending, thread: Some(thread) }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        let _ = self.socket.shutdown(Shutdown::Both); // it may be closed already
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) && !thread::panicking() {
            panic!("the consumer has failed");
        }
    }
}

fn consume(mut link: Link, acks: Acks, is_ending: &AtomicBool, mut on_delivery: impl FnMut(Delivery)) {
    let mut incoming = Incoming::default();
    let mut acknowledged = 0;
    loop {
        // What arrived behind the answer to basic.consume is looked at first.
        let at = Instant::now();
        while let Some((kind, payload)) = link.received.next_frame() {
            if let Some(id) = incoming.take(kind, payload) {
                on_delivery(Delivery { id, at });
            }
        }
        if acks != Acks::No && incoming.complete > acknowledged {
            acknowledged = incoming.complete;
            let mut out = Vec::new();
            put_method(&mut out, CHANNEL, (BASIC, 80), |out| {
                out.extend(acknowledged.to_be_bytes());
                out.push(1); // and all before it
            });
            let written = link.socket.write_all(&out);
            assert!(
                written.is_ok() || is_ending.load(Ordering::Acquire),
                "RabbitMQ takes no acknowledgement: {written:?}"
            );
        }
        let read = link.received.read(&mut link.socket);
        if !matches!(read, Ok(1..)) {
            assert!(is_ending.load(Ordering::Acquire), "the consumer's connection has ended: {read:?}");
            return;
        }
    }
}

/// A message whose frames are coming in.
#[derive(Default)]
struct Incoming {
    id: Uuid,
    /// What is still to come of its body, in bytes.
    left: u64,
    /// Delivery tag of the last whole message. The broker counts from 1.
    complete: u64,
}

impl Incoming {
    /// Takes the next frame. `Some` with its id when it was the last of a message.
    fn take(&mut self, kind: u8, payload: &[u8]) -> Option<Uuid> {
        let mut reader = Reader(payload);
        match kind {
            METHOD => {
                let method = reader.method();
                assert_eq!(method, (BASIC, 60), "not a delivery: {}", String::from_utf8_lossy(reader.0));
                return None;
            }
            HEADER => {
                (self.id, self.left) = content_header(reader);
            }
            BODY => self.left -= payload.len() as u64,
            _ => return None, // a heartbeat
        }
        (self.left == 0).then(|| {
            self.complete += 1;
            self.id
        })
    }
}

/// `message_id`, and the size of the body in bytes.
fn content_header(mut reader: Reader<'_>) -> (Uuid, u64) {
    reader.take(4); // class and weight
    let bytes = reader.u64();
    let flags = reader.u16();
    for bit in (8..=15).rev().filter(|bit| flags & 1 << bit != 0) {
        match bit {
            13 => drop(reader.sized()),   // headers
            12 | 11 => drop(reader.u8()), // delivery-mode, priority
            // content-type, content-encoding; correlation-id, reply-to, expiration
            _ => drop(reader.short_string()),
        }
    }
    assert!(flags & 1 << 7 != 0, "the message has no message_id");
    let id = Uuid::try_parse_ascii(reader.short_string()).expect("message_id is a UUID");
    (id, bytes)
}
