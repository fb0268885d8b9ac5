//! Publishes as fast as the broker takes: the relay's properties, mandatory, persistent, confirmed.

use std::{
    collections::BTreeSet,
    fs, io, thread,
    time::{Duration, Instant},
};

use amqp_publisher::raw::Incoming;

use super::{link::Link, message::Prepared};
use crate::emitted::{Emitted, SoFar};

/// What it took until the last confirm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) messages: u64,
    pub(crate) took: Duration,
    /// CPU time of this client.
    pub(crate) cpu: Duration,
}

/// Publishes a message with a body of `body` bytes to `exchange` for each event that is emitted, until there are no
/// more, with at most `window` of them unconfirmed.
///
/// Blocks the thread that calls it.
pub(crate) fn publish(
    link: &mut Link,
    exchange: &str,
    body: usize,
    key_headers: bool,
    emitted: &Emitted,
    window: u64,
) -> Published {
    let mut messages = Prepared::new(exchange, body, key_headers, window);
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
        link.read().unwrap_or_else(|e| panic!("reading from RabbitMQ: {e}"));
        while let Some(frame) = link.next() {
            let Incoming::Ack { tag, multiple } = frame else { panic!("not a confirm: {frame:?}") };
            confirms.take(tag, multiple);
        }
    }
    Published { messages: published, took: start.elapsed(), cpu: cpu_of_this_thread() - cpu }
}

/// Publishes a message for each event as soon as it is emitted, until there are no more, and throws the confirms away.
/// The broker has all messages only while the link stays open.
///
/// Blocks the thread that calls it.
pub(crate) fn publish_at_once(link: &mut Link, exchange: &str, body: usize, emitted: &Emitted) {
    let mut messages = Prepared::new(exchange, body, true, u64::MAX);
    let mut confirms = link.socket();
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

/// Counts confirms. Each stands for one message, or for all up to one.
#[derive(Default)]
struct Confirms {
    /// All messages up to this tag are confirmed.
    up_to: u64,
    /// Tags beyond it that are confirmed.
    beyond: BTreeSet<u64>,
}

impl Confirms {
    fn count(&self) -> u64 {
        self.up_to + self.beyond.len() as u64
    }

    fn take(&mut self, tag: u64, multiple: bool) {
        if multiple {
            self.up_to = self.up_to.max(tag);
            self.beyond = self.beyond.split_off(&(tag + 1));
        } else {
            self.beyond.insert(tag);
        }
        while self.beyond.remove(&(self.up_to + 1)) {
            self.up_to += 1;
        }
    }
}

/// The first field of `schedstat` is nanoseconds on a CPU (Linux, Documentation/scheduler/sched-stats).
fn cpu_of_this_thread() -> Duration {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").expect("/proc is there");
    let nanoseconds = schedstat.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number of nanoseconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirm_stands_for_one_message_or_for_all_before() {
        let mut confirms = Confirms::default();
        for (tag, multiple, count) in [(2, false, 1), (4, false, 2), (1, false, 3), (5, true, 5), (7, false, 6)] {
            confirms.take(tag, multiple);
            assert_eq!(confirms.count(), count, "after {tag}");
        }
    }
}
