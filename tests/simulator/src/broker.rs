//! A simulated broker behind a sink: connections, queues, answers that are late and come together.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use outbox_core::{Event, Outcome};
use uuid::Uuid;

use crate::database::{Micros, seq_of};

/// How a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Takes,
    /// It is full, or has no majority.
    Full,
    /// RabbitMQ 4 without a majority: it answers nothing. Soon the main channel takes nothing more.
    Mute,
    /// Nobody has bound it.
    Missing,
}

/// One relay's connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// Handed to the socket, in order.
    pub(crate) on_the_way: VecDeque<Arc<Event>>,
    /// Answers that the relay does not have yet.
    pub(crate) answers: Vec<(Uuid, Outcome)>,
    /// What has no answer at the relay; the sink publishes it again when a channel is closed.
    pub(crate) unanswered: Vec<Arc<Event>>,
    /// Handed to the socket for side channels.
    pub(crate) on_side_channels: VecDeque<Arc<Event>>,
    /// Messages of the main channel that a mute queue has.
    pub(crate) muted: u64,
    /// The main channel takes nothing more.
    pub(crate) is_stuck: bool,
    pub(crate) is_blocked: bool,
    /// A step of it, or its answers, are on the agenda.
    pub(crate) is_stepping: bool,
    pub(crate) is_answering: bool,
    /// Since when the broker owes answers.
    pub(crate) answers_due_since: Option<Micros>,
}

/// What the broker has seen of an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Times that a queue took it.
    pub(crate) accepted: u32,
    /// It was refused for good.
    pub(crate) rejected: u32,
    /// The broker ended a connection over it.
    pub(crate) ended: u32,
    /// It had no queue.
    pub(crate) returned: u32,
    /// It was nacked.
    pub(crate) nacked: u32,
    /// A mute queue had it, and gave no answer.
    pub(crate) muted: u32,
    /// Nacks that may count: since the one before, over the same connection, another message was taken.
    pub(crate) countable: u32,
    /// How many messages each connection had taken when it last nacked it.
    nacks: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Broker {
    pub(crate) is_up: bool,
    /// Lets relays in, and closes the connection at the first message.
    pub(crate) closes_on_publish: bool,
    pub(crate) is_silent: bool,
    pub(crate) queues: [Queue; 3],
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) seen: BTreeMap<i64, Seen>,
    /// What mute queues have.
    muted: Vec<Muted>,
    /// Messages taken, by connection.
    taken: BTreeMap<u64, u64>,
    next: u64,
}

/// A message that a mute queue has: it is delivered once the majority is back, whatever has become of its connection.
#[derive(Clone, Debug)]
struct Muted {
    connection: u64,
    event: Arc<Event>,
    queue: usize,
    is_on_side_channel: bool,
}

/// What a step of a connection did.
pub(crate) enum Stepped {
    /// This event was taken by a queue.
    Accepted(i64),
    NotTaken {
        seq: i64,
        closes_channel: bool,
    },
    /// A mute queue has it.
    Muted {
        seq: i64,
        is_on_side_channel: bool,
    },
    /// The broker has closed the connection.
    Closed,
    Nothing,
}

impl Broker {
    pub(crate) fn new() -> Self {
        Self {
            is_up: true,
            closes_on_publish: false,
            is_silent: false,
            queues: [Queue::Takes; 3],
            connections: BTreeMap::new(),
            seen: BTreeMap::new(),
            muted: Vec::new(),
            taken: BTreeMap::new(),
            next: 0,
        }
    }

    pub(crate) fn open(&mut self) -> u64 {
        self.next += 1;
        self.connections.insert(self.next, Connection::default());
        self.next
    }

    /// Takes the next message of a connection.
    pub(crate) fn step(&mut self, number: u64, unroutable_is_retried: bool, now: Micros) -> Stepped {
        let Some(connection) = self.connections.get_mut(&number) else { return Stepped::Nothing };
        if !self.is_up || connection.is_blocked {
            return Stepped::Nothing;
        }
        let beside = connection.on_side_channels.pop_front();
        let is_on_side_channel = beside.is_some();
        let is_stuck = connection.is_stuck;
        let on_main = || if is_stuck { None } else { connection.on_the_way.pop_front() };
        let Some(event) = beside.or_else(on_main) else { return Stepped::Nothing };
        if self.closes_on_publish {
            return Stepped::Closed;
        }
        let seq = seq_of(&event.id);
        let seen = self.seen.entry(seq).or_default();
        if event.correlation_id.is_some() {
            seen.ended += 1;
            return Stepped::Closed;
        }
        let taken = self.taken.entry(number).or_default();
        let number_of_queue = usize::from(event.topic.as_bytes()[0] - b'a');
        let queue = self.queues[number_of_queue];
        let is_poison = event.event_type.is_some();
        let outcome = match queue {
            _ if is_poison && is_on_side_channel => {
                seen.rejected += 1;
                Outcome::Rejected("404 NOT_FOUND".to_owned())
            }
            _ if is_poison => {
                seen.rejected += 1;
                // The channel is closed; the sink publishes again what has no answer, and only then asks for this one.
                let unanswered = &connection.unanswered;
                let is_on_side_channel = |id: &Uuid| unanswered.iter().all(|event| event.id != *id);
                let stays =
                    |(id, outcome): &(Uuid, Outcome)| is_on_side_channel(id) || matches!(outcome, Outcome::Rejected(_));
                connection.answers.retain(stays);
                let is_decided =
                    |id: &Uuid| *id == event.id || connection.answers.iter().any(|(answered, _)| answered == id);
                let again: Vec<_> =
                    connection.unanswered.iter().filter(|other| !is_decided(&other.id)).cloned().collect();
                connection.on_the_way = again.into();
                Outcome::Rejected("404 NOT_FOUND".to_owned())
            }
            Queue::Takes => {
                seen.accepted += 1;
                *taken += 1;
                Outcome::Delivered
            }
            Queue::Full => {
                seen.nacked += 1;
                let before = seen.nacks.insert(number, *taken);
                seen.countable += u32::from(before.is_some_and(|then| *taken > then));
                Outcome::Unavailable("nack".to_owned())
            }
            Queue::Mute => {
                seen.muted += 1;
                self.muted.push(Muted { connection: number, event, queue: number_of_queue, is_on_side_channel });
                connection.muted += u64::from(!is_on_side_channel);
                connection.is_stuck |= connection.muted > number % 3;
                return Stepped::Muted { seq, is_on_side_channel };
            }
            Queue::Missing if unroutable_is_retried => {
                seen.returned += 1;
                Outcome::Retry("312 NO_ROUTE".to_owned())
            }
            Queue::Missing => {
                seen.rejected += 1;
                Outcome::Rejected("312 NO_ROUTE".to_owned())
            }
        };
        let is_accepted = outcome == Outcome::Delivered;
        connection.answers.push((event.id, outcome));
        connection.answers_due_since.get_or_insert(now);
        if is_accepted {
            Stepped::Accepted(seq)
        } else {
            Stepped::NotTaken { seq, closes_channel: is_poison && !is_on_side_channel }
        }
    }

    /// The answers that the relay gets now.
    pub(crate) fn answer(&mut self, number: u64, at_most: usize) -> Vec<(Uuid, Outcome)> {
        let Some(connection) = self.connections.get_mut(&number) else { return Vec::new() };
        if self.is_silent || !self.is_up || connection.is_blocked {
            return Vec::new();
        }
        let count = at_most.min(connection.answers.len());
        let answers: Vec<(Uuid, Outcome)> = connection.answers.drain(..count).collect();
        for (id, _) in &answers {
            connection.unanswered.retain(|event| event.id != *id);
        }
        connection.answers_due_since = None;
        answers
    }

    /// The queue is mute no longer. Returns what it has taken.
    pub(crate) fn unmute(&mut self, queue: usize, now: Micros) -> Vec<i64> {
        let (taken, muted) =
            std::mem::take(&mut self.muted).into_iter().partition(|muted: &Muted| muted.queue == queue);
        self.muted = muted;
        let taken: Vec<Muted> = taken;
        for Muted { connection, event, is_on_side_channel, .. } in &taken {
            self.seen.entry(seq_of(&event.id)).or_default().accepted += 1;
            if let Some(open) = self.connections.get_mut(connection) {
                *self.taken.entry(*connection).or_default() += 1;
                open.muted -= u64::from(!is_on_side_channel);
                open.is_stuck &= open.muted > 0;
                open.answers.push((event.id, Outcome::Delivered));
                open.answers_due_since.get_or_insert(now);
            }
        }
        taken.iter().map(|muted| seq_of(&muted.event.id)).collect()
    }

    /// A side channel stops waiting for a mute queue and nacks. Returns whether it did.
    pub(crate) fn give_up(&mut self, connection: u64, seq: i64) -> bool {
        let is_it = |muted: &Muted| {
            muted.connection == connection && muted.is_on_side_channel && seq_of(&muted.event.id) == seq
        };
        let Some(place) = self.muted.iter().position(is_it) else { return false };
        let Some(open) = self.connections.get_mut(&connection) else { return false };
        let outcome = Outcome::Unavailable("nack".to_owned());
        open.answers.push((self.muted.remove(place).event.id, outcome));
        let taken = self.taken.get(&connection).copied().unwrap_or_default();
        let seen = self.seen.entry(seq).or_default();
        seen.nacked += 1;
        seen.nacks.insert(connection, taken);
        true
    }

    /// Whether it takes a message over a connection that has just opened, and says so.
    pub(crate) fn answers_a_proof(&self) -> bool {
        !self.closes_on_publish && !self.is_silent
    }

    pub(crate) fn has_accepted(&self, seq: i64) -> bool {
        self.seen.get(&seq).is_some_and(|seen| seen.accepted > 0)
    }

    /// Nothing that was refused so far counts in a new life of the event.
    pub(crate) fn forget_failures(&mut self, seq: i64) {
        if let Some(seen) = self.seen.get_mut(&seq) {
            *seen = Seen { accepted: seen.accepted, ..Seen::default() };
        }
    }
}
