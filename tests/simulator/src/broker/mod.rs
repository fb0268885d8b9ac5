//! A simulated broker behind a sink, with connections and queues. Its answers are late and come in groups.
//!
//! It is one of two kinds: `queues` nacks and returns as RabbitMQ does, and `log` keeps order and knows what it has, as
//! Kafka does.

mod log;
mod queues;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use outbox_core::{Event, Outcome, marked};
use uuid::Uuid;

use self::log::Late;
pub(crate) use self::log::{Log, Publisher, Taken};
use crate::database::{Micros, seq_of};

/// The state of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Takes,
    /// The queue is full, or has no majority.
    Full,
    /// A quorum queue of RabbitMQ 4 without its majority: it answers nothing, and soon the main channel takes nothing
    /// more.
    Mute,
    /// No queue is bound.
    Missing,
}

/// A message in the socket.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) event: Arc<Event>,
    /// When the relay handed it over.
    pub(crate) at: Micros,
    /// How many refusals of its queue the sink knew then.
    pub(crate) generation: u64,
}

marked!(Sent { event, generation } not { at });

/// One relay's connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    /// Messages of the main channel that are in the socket, in order.
    pub(crate) on_the_way: VecDeque<Sent>,
    /// Outcomes that have not reached the relay.
    pub(crate) answers: Vec<(Uuid, Outcome)>,
    /// Messages of the main channel that are unanswered at the relay. The sink publishes them again when a channel is
    /// closed.
    pub(crate) unanswered: Vec<Arc<Event>>,
    /// Messages of side channels that are in the socket.
    pub(crate) on_side_channels: VecDeque<Sent>,
    /// How many messages of the main channel a mute queue has.
    pub(crate) muted: u64,
    /// Whether the main channel takes nothing more.
    pub(crate) is_stuck: bool,
    pub(crate) is_blocked: bool,
    /// Whether a step is on the agenda, and whether the answers are.
    pub(crate) is_stepping: bool,
    pub(crate) is_answering: bool,
    /// Since when answers have been ready that have not reached the relay; `None`: there are none.
    pub(crate) answers_due_since: Option<Micros>,
    /// Who publishes, to a broker that keeps a log.
    pub(crate) publisher: Publisher,
}

marked!(Connection { on_the_way, answers, publisher } not {
    unanswered, on_side_channels, muted, is_stuck, is_blocked, is_stepping, is_answering, answers_due_since
});

/// What the broker has seen of an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// How often a queue took it.
    pub(crate) accepted: u32,
    /// How often it was rejected for good.
    pub(crate) rejected: u32,
    /// How often the broker ended a connection over it.
    pub(crate) ended: u32,
    /// How often it was returned, since no queue was bound.
    pub(crate) returned: u32,
    /// How often it was nacked.
    pub(crate) nacked: u32,
    /// How often a mute queue got it and gave no answer.
    pub(crate) muted: u32,
    /// How often it came back behind another.
    pub(crate) behind: u32,
    /// Nacks that may count: since the previous one, over the same connection, another message was taken.
    pub(crate) countable: u32,
    /// How many messages each connection had taken when it last nacked the event.
    nacks: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Broker {
    pub(crate) is_up: bool,
    /// Whether the broker accepts connections and closes each at its first message.
    pub(crate) closes_on_publish: bool,
    pub(crate) is_silent: bool,
    pub(crate) queues: [Queue; 3],
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) seen: BTreeMap<i64, Seen>,
    /// The messages that mute queues have.
    muted: Vec<Muted>,
    /// How many messages were taken, by connection.
    taken: BTreeMap<u64, u64>,
    next: u64,
    /// `None`: the broker has queues.
    pub(crate) log: Option<Log>,
}

/// A message that a mute queue has. It is delivered once the queue has its majority again, even if its connection has
/// ended.
#[derive(Clone, Debug)]
struct Muted {
    connection: u64,
    sent: Sent,
    queue: usize,
    is_on_side_channel: bool,
}

/// The result of a connection's step.
pub(crate) enum Stepped {
    /// A queue has taken this event, and had taken it before.
    Accepted(i64, Option<Taken>),
    /// The broker has had this event from the same publisher.
    Known(i64),
    NotTaken {
        seq: i64,
        closes_channel: bool,
    },
    /// A mute queue has got it.
    Muted {
        seq: i64,
        is_on_side_channel: bool,
    },
    /// The broker has closed the connection.
    Closed,
    /// Another publisher has replaced the one of this connection.
    Replaced,
    Nothing,
}

/// The number of the event's queue.
pub(crate) fn queue_of(event: &Event) -> usize {
    usize::from(event.destination.topic.as_bytes()[0] - b'a')
}

impl Broker {
    pub(crate) fn new(is_ordered: bool) -> Self {
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
            log: is_ordered.then(Log::default),
        }
    }

    pub(crate) fn open(&mut self) -> u64 {
        self.next += 1;
        self.connections.insert(self.next, Connection::default());
        self.next
    }

    /// Processes the next message of a connection.
    pub(crate) fn step(&mut self, number: u64, unroutable_is_retried: bool, now: Micros) -> Stepped {
        let Some(connection) = self.connections.get_mut(&number) else { return Stepped::Nothing };
        if !self.is_up || connection.is_blocked {
            return Stepped::Nothing;
        }
        let beside = connection.on_side_channels.pop_front();
        let is_on_side_channel = beside.is_some();
        let is_stuck = connection.is_stuck;
        let on_main = || if is_stuck { None } else { connection.on_the_way.pop_front() };
        let Some(sent) = beside.or_else(on_main) else { return Stepped::Nothing };
        if self.closes_on_publish {
            return Stepped::Closed;
        }
        let seq = seq_of(&sent.event.id);
        if sent.event.correlation_id.is_some() {
            self.seen.entry(seq).or_default().ended += 1;
            return Stepped::Closed;
        }
        let queue = queue_of(&sent.event);
        let stepped = if self.log.is_some() {
            self.append(number, sent, queue, unroutable_is_retried)
        } else {
            self.enqueue(number, sent, queue, is_on_side_channel, unroutable_is_retried)
        };
        let is_answered = !matches!(stepped, Stepped::Muted { .. } | Stepped::Replaced);
        if let Some(connection) = self.connections.get_mut(&number).filter(|_| is_answered) {
            connection.answers_due_since.get_or_insert(now);
        }
        stepped
    }

    /// What a queue that answers says of a message.
    fn outcome(&mut self, number: u64, event: &Event, queue: usize, unroutable_is_retried: bool) -> Outcome {
        let seen = self.seen.entry(seq_of(&event.id)).or_default();
        let taken = self.taken.entry(number).or_default();
        match self.queues[queue] {
            _ if event.event_type.is_some() => {
                seen.rejected += 1;
                Outcome::Rejected("404 NOT_FOUND".to_owned())
            }
            Queue::Takes | Queue::Mute => {
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
            Queue::Missing if unroutable_is_retried => {
                seen.returned += 1;
                Outcome::Retry("312 NO_ROUTE".to_owned())
            }
            Queue::Missing => {
                seen.rejected += 1;
                Outcome::Rejected("312 NO_ROUTE".to_owned())
            }
        }
    }

    /// Takes outcomes that reach the relay now.
    pub(crate) fn answer(&mut self, number: u64, at_most: usize) -> Vec<(Uuid, Outcome)> {
        let Some(connection) = self.connections.get_mut(&number) else { return Vec::new() };
        if self.is_silent || !self.is_up || connection.is_blocked {
            return Vec::new();
        }
        let count = at_most.min(connection.answers.len());
        let answers: Vec<(Uuid, Outcome)> = connection.answers.drain(..count).collect();
        for (id, _) in &answers {
            connection.unanswered.retain(|event| event.id != *id);
            connection.publisher.hears(id);
        }
        connection.answers_due_since = None;
        answers
    }

    /// The queue has its majority again. Returns the events that it takes now, each with its earlier delivery.
    pub(crate) fn unmute(&mut self, queue: usize, now: Micros) -> Vec<(i64, u64, Option<Taken>)> {
        let (ready, muted): (Vec<Muted>, _) =
            std::mem::take(&mut self.muted).into_iter().partition(|muted| muted.queue == queue);
        self.muted = muted;
        let mut taken = Vec::new();
        for Muted { connection, sent, is_on_side_channel, .. } in ready {
            let seq = seq_of(&sent.event.id);
            match self.take_late(connection, &sent) {
                Late::Taken(earlier) => {
                    self.seen.entry(seq).or_default().accepted += 1;
                    taken.push((seq, connection, earlier));
                }
                Late::Known => {}
                Late::Lost => continue,
            }
            if let Some(open) = self.connections.get_mut(&connection) {
                *self.taken.entry(connection).or_default() += 1;
                open.muted -= u64::from(!is_on_side_channel);
                open.is_stuck &= open.muted > 0;
                open.answers.push((sent.event.id, Outcome::Delivered));
                open.answers_due_since.get_or_insert(now);
            }
        }
        taken
    }

    /// A side channel gives up waiting for a mute queue and nacks. Returns whether the queue still had the event.
    pub(crate) fn give_up(&mut self, connection: u64, seq: i64) -> bool {
        let is_it = |muted: &Muted| {
            muted.connection == connection && muted.is_on_side_channel && seq_of(&muted.sent.event.id) == seq
        };
        let Some(place) = self.muted.iter().position(is_it) else { return false };
        let Some(open) = self.connections.get_mut(&connection) else { return false };
        let outcome = Outcome::Unavailable("nack".to_owned());
        open.answers.push((self.muted.remove(place).sent.event.id, outcome));
        let taken = self.taken.get(&connection).copied().unwrap_or_default();
        let seen = self.seen.entry(seq).or_default();
        seen.nacked += 1;
        seen.nacks.insert(connection, taken);
        true
    }

    /// Whether the broker returns the sink's own message over a connection that has just opened.
    pub(crate) fn answers_a_proof(&self) -> bool {
        !self.closes_on_publish && !self.is_silent
    }

    pub(crate) fn has_accepted(&self, seq: i64) -> bool {
        self.seen.get(&seq).is_some_and(|seen| seen.accepted > 0)
    }

    /// A replay begins anew: earlier failures of the event no longer count.
    pub(crate) fn forget_failures(&mut self, seq: i64) {
        if let Some(seen) = self.seen.get_mut(&seq) {
            *seen = Seen { accepted: seen.accepted, ..Seen::default() };
        }
    }
}
