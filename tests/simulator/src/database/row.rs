//! An event as it was emitted, its row in the table, changes of the row, and what the relay reads of it.

use bytes::Bytes;
use outbox_core::{Destination, Event, Marked, Marks, Status, Text, marked};
use uuid::Uuid;

use super::Micros;
use crate::knobs::LARGEST_MESSAGE;

/// The part of an event that never changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Emitted {
    pub(crate) seq: i64,
    pub(crate) key: Option<u64>,
    pub(crate) topic: usize,
    /// The broker closes the channel over it.
    pub(crate) is_poison: bool,
    /// The broker ends the connection over it.
    pub(crate) is_ender: bool,
    pub(crate) is_oversized: bool,
    /// Its body is larger than the broker takes.
    pub(crate) is_too_large: bool,
    pub(crate) is_deferred: bool,
    /// The table was in the publication when the event was inserted.
    pub(crate) is_published: bool,
}

marked!(Emitted { seq } not { key, topic, is_poison, is_ender, is_oversized, is_too_large, is_deferred, is_published });

/// A visible row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) emitted: Emitted,
    pub(crate) status: Status,
    pub(crate) attempts: u32,
    pub(crate) first_attempted_at: Option<Micros>,
    pub(crate) available_at: Option<Micros>,
    pub(crate) holds_key: bool,
    pub(crate) replays: u32,
    /// When it became `SENT`.
    pub(crate) sent_at: Option<Micros>,
    /// The transaction that last wrote the row.
    pub(crate) writer: u64,
    /// Another transaction has locked the row until this time.
    pub(crate) locked_until: Micros,
    /// A trigger refuses the row's verdict until this time.
    pub(crate) refused_until: Micros,
}

marked!(Row {
    emitted, status, attempts, first_attempted_at, available_at, holds_key, replays, sent_at, writer as Xid, locked_until, refused_until,
});

impl Row {
    pub(super) fn new(emitted: Emitted, available_at: Option<Micros>, writer: u64) -> Self {
        Self {
            emitted,
            status: Status::Pending,
            attempts: 0,
            first_attempted_at: None,
            available_at,
            holds_key: false,
            replays: 0,
            sent_at: None,
            writer,
            locked_until: 0,
            refused_until: 0,
        }
    }

    /// Makes the row `PENDING` again. A trigger that refuses its verdict goes on doing so.
    pub(super) fn replay(&mut self, writer: u64) {
        self.status = Status::Pending;
        self.attempts = 0;
        self.first_attempted_at = None;
        self.available_at = None;
        self.holds_key = false;
        self.replays += 1;
        self.sent_at = None;
        self.writer = writer;
        self.locked_until = 0;
    }

    /// The event as the relay reads it from the table.
    pub(super) fn event(&self) -> Event {
        Event {
            attempts: self.attempts,
            committed_at_us: None,
            first_attempted_at_us: self.first_attempted_at.map(|at| at as i64),
            holds_key: self.holds_key,
            replays: self.replays,
            ..streamed(&self.emitted)
        }
    }
}

/// A change that a transaction makes.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert(Emitted, Option<Micros>),
    /// A replay of this event. The flag: whether the trigger wakes the relay.
    Replay(i64, bool),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) changes: Vec<Change>,
}

impl Marked for Change {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Insert(emitted, until) => (emitted, until).mark(marks),
            Self::Replay(seq, has_message) => (seq, has_message).mark(marks),
        }
    }
}

marked!(Transaction { changes });

impl Transaction {
    /// Whether the transaction inserts the event.
    pub(crate) fn inserts(&self, seq: i64) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Insert(emitted, _) if emitted.seq == seq))
    }
}

/// The event as the relay reads it from the stream, where it has no attempts.
pub(crate) fn streamed(emitted: &Emitted) -> Event {
    const TOPICS: [&str; 3] = ["a", "b", "c"];
    Event {
        id: id_of(emitted.seq),
        seq: emitted.seq,
        destination: Destination {
            exchange: None,
            topic: Text::from_static(TOPICS.get(emitted.topic).copied().unwrap_or("a")),
        },
        event_type: emitted.is_poison.then_some(Text::from_static("poison")),
        aggregate_type: None,
        aggregate_id: emitted.key.and_then(|key| Text::new(Bytes::from(key.to_string())).ok()),
        body: Ok(if emitted.is_too_large { Bytes::from_static(&[0; LARGEST_MESSAGE + 1]) } else { Bytes::new() }),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: emitted.is_ender.then_some(Text::from_static("ender")),
        created_at_us: 0,
        attempts: 0,
        committed_at_us: None,
        first_attempted_at_us: None,
        holds_key: false,
        replays: 0,
    }
}

pub(crate) fn id_of(seq: i64) -> Uuid {
    // The ids are spread, like the low half of UUIDs of version 7.
    Uuid::from_u128((seq as u128) << 64 | u128::from((seq as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

pub(crate) fn seq_of(id: &Uuid) -> i64 {
    (id.as_u128() >> 64) as i64
}
