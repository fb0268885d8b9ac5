//! A broker that keeps a log, as Kafka does. It takes the messages of a queue in order: once it has refused one, those
//! that were sent before the sink knew come back behind it. It takes nothing twice from one publisher, and nothing from
//! a publisher that another has replaced. The sink can read what the log has.

use std::{collections::BTreeMap, sync::Arc};

use outbox_core::{Event, Outcome, marked};
use uuid::Uuid;

use super::{Broker, Muted, Queue, Sent, Stepped, queue_of};
use crate::database::{Micros, seq_of};

/// What the broker has, by event and number of replays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    taken: BTreeMap<(i64, u32), Vec<Taken>>,
    /// The identity that publishes; an older one is shut out.
    identity: u64,
}

marked!(Log { taken, identity });

/// One message in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) session: u64,
    identity: u64,
    /// When the relay handed the message over, which is its timestamp.
    pub(crate) at: Micros,
}

marked!(Taken { identity } not { session, at });

/// Who publishes over a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Publisher {
    pub(crate) session: u64,
    pub(crate) identity: u64,
    /// Whether it keeps the order of events with the same key.
    keeps_order: bool,
    /// By queue, how many refusals the sink knows, and the count with which the last refused message was sent.
    generations: [u64; 3],
    refused: [Option<u64>; 3],
    /// Refused events, with their queues, until the sink knows that they were refused.
    refusals: BTreeMap<Uuid, usize>,
    /// Events without an outcome at the sink.
    unanswered: BTreeMap<Uuid, Sent>,
}

marked!(Publisher { identity, generations, refused, refusals, unanswered } not { session, keeps_order });

impl Publisher {
    pub(crate) fn new(session: u64, identity: u64, keeps_order: bool) -> Self {
        Self { session, identity, keeps_order, ..Self::default() }
    }

    /// Sends a message. Behind an event of its key that comes back it comes back as well.
    pub(crate) fn send(&mut self, event: Arc<Event>, at: Micros) -> Sent {
        let queue = queue_of(&event);
        let key = event.aggregate_id.as_ref().filter(|_| self.keeps_order);
        let is_before =
            |sent: &&Sent| key.is_some() && queue_of(&sent.event) == queue && sent.event.aggregate_id.as_ref() == key;
        let before = self.unanswered.values().filter(is_before).map(|sent| sent.generation).min();
        let sent = Sent { event, at, generation: before.unwrap_or(self.generations[queue]) };
        self.unanswered.insert(sent.event.id, sent.clone());
        sent
    }

    /// An outcome reaches the sink.
    pub(super) fn hears(&mut self, id: &Uuid) {
        self.unanswered.remove(id);
        if let Some(queue) = self.refusals.remove(id) {
            self.generations[queue] += 1;
        }
    }
}

/// What becomes of a message that a mute queue had.
pub(super) enum Late {
    /// The broker takes it; the message's first copy, if there was one.
    Taken(Option<Taken>),
    /// The broker has it already.
    Known,
    /// The broker drops it.
    Lost,
}

impl Log {
    /// Makes a new identity, and shuts out all older ones.
    pub(crate) fn identify(&mut self) -> u64 {
        self.identity += 1;
        self.identity
    }

    /// What was handed over since then: events and numbers of replays.
    pub(crate) fn read(&self, since: Micros) -> impl Iterator<Item = (i64, u32)> {
        self.taken.iter().filter(move |(_, taken)| taken.iter().any(|taken| taken.at >= since)).map(|(id, _)| *id)
    }

    /// Appends the message. Returns its first copy, if there was one.
    fn append(&mut self, sent: &Sent, session: u64, identity: u64) -> Option<Taken> {
        let copies = self.taken.entry((seq_of(&sent.event.id), sent.event.replays)).or_default();
        let first = copies.first().copied();
        copies.push(Taken { session, identity, at: sent.at });
        first
    }

    fn has(&self, sent: &Sent, identity: u64) -> bool {
        let copies = self.taken.get(&(seq_of(&sent.event.id), sent.event.replays));
        copies.is_some_and(|copies| copies.iter().any(|taken| taken.identity == identity))
    }
}

impl Broker {
    /// The next message of a connection reaches its queue.
    pub(super) fn append(&mut self, number: u64, sent: Sent, queue: usize, unroutable_is_retried: bool) -> Stepped {
        let (Some(connection), Some(log)) = (self.connections.get_mut(&number), &self.log) else {
            return Stepped::Nothing;
        };
        let (seq, id) = (seq_of(&sent.event.id), sent.event.id);
        let (publisher, answers) = (&mut connection.publisher, &mut connection.answers);
        let (session, identity) = (publisher.session, publisher.identity);
        if identity != log.identity {
            return Stepped::Replaced;
        }
        if log.has(&sent, identity) {
            answers.push((id, Outcome::Delivered));
            *self.taken.entry(number).or_default() += 1;
            return Stepped::Known(seq);
        }
        if publisher.refused[queue].is_some_and(|refused| sent.generation <= refused) {
            answers.push((id, Outcome::Behind));
            self.seen.entry(seq).or_default().behind += 1;
            return Stepped::NotTaken { seq, closes_channel: false };
        }
        // What comes after a message that has no answer has none, either.
        let is_mute = self.muted.iter().any(|muted| muted.connection == number && muted.queue == queue);
        if is_mute || self.queues[queue] == Queue::Mute {
            self.seen.entry(seq).or_default().muted += 1;
            connection.muted += 1;
            self.muted.push(Muted { connection: number, sent, queue, is_on_side_channel: false });
            return Stepped::Muted { seq, is_on_side_channel: false };
        }
        let outcome = self.outcome(number, &sent.event, queue, unroutable_is_retried);
        let is_taken = outcome == Outcome::Delivered;
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.answers.push((id, outcome));
            if !is_taken {
                connection.publisher.refused[queue] = Some(sent.generation);
                connection.publisher.refusals.insert(id, queue);
            }
        }
        if is_taken {
            let earlier = self.log.as_mut().and_then(|log| log.append(&sent, session, identity));
            Stepped::Accepted(seq, earlier)
        } else {
            Stepped::NotTaken { seq, closes_channel: false }
        }
    }

    /// A queue that had no majority reaches a message. A log takes it only if its connection is still open, its
    /// publisher was not replaced, and no other connection of that publisher has brought it.
    pub(super) fn take_late(&mut self, connection: u64, sent: &Sent) -> Late {
        let Some(log) = &mut self.log else { return Late::Taken(None) };
        let Some(open) = self.connections.get(&connection) else { return Late::Lost };
        let Publisher { session, identity, .. } = open.publisher;
        if identity != log.identity {
            Late::Lost
        } else if log.has(sent, identity) {
            Late::Known
        } else {
            Late::Taken(log.append(sent, session, identity))
        }
    }
}
