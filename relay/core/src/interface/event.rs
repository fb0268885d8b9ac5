//! One row of `outbox.events` on its way to the broker, and the key that orders it.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use uuid::Uuid;

use crate::interface::Destination;

/// An event as it is published. Text columns are UTF-8 slices of one allocation, so a clone is cheap, and an event that
/// waits pins no network buffer.
#[derive(Clone)]
pub struct Event {
    /// Primary key of the row; the AMQP `message_id` of every delivery.
    pub id: Uuid,
    /// The row's number in the order of the table; the header `x-outbox-seq`.
    pub seq: i64,
    /// Where the event goes.
    pub destination: Destination,
    /// AMQP `type`.
    pub event_type: Option<Text>,
    /// First half of the ordering key, and a header.
    pub aggregate_type: Option<Text>,
    /// Second half of the ordering key, and a header.
    pub aggregate_id: Option<Text>,
    /// Message body: the JSON text of `payload`, or `payload_bytes` unchanged. An error says why no broker could take
    /// the event: its row was inserted past the checks (by logical replication, or with triggers disabled), or is
    /// damaged.
    pub body: Result<Bytes, Box<str>>,
    /// AMQP `content_type`; `application/json` for a JSON payload that names none.
    pub content_type: Text,
    /// JSON text of `headers`, a JSON object.
    pub headers: Option<Bytes>,
    /// AMQP `correlation_id`.
    pub correlation_id: Option<Text>,
    /// Microseconds since the Unix epoch; AMQP `timestamp` in whole seconds.
    pub created_at_us: i64,
    /// When the event's transaction committed, in microseconds since the Unix epoch; `None`: the event was read from
    /// the table.
    pub committed_at_us: Option<i64>,
    /// Attempts recorded in the row before this one.
    pub attempts: u32,
    /// When the first attempt was made, in microseconds since the Unix epoch; `None`: no attempt has counted.
    pub first_attempted_at_us: Option<i64>,
    /// Whether the event holds its key, so that later events of the key wait for it: an earlier attempt has failed, or
    /// was put off.
    pub holds_key: bool,
    /// How often the event was replayed; the header `x-outbox-replay`, unless 0.
    pub replays: u32,
}

// A relay can change only these fields; the others follow from the id.
crate::marked!(Event { id, attempts, holds_key, replays } not {
    seq, destination, event_type, aggregate_type, aggregate_id, body, content_type, headers, correlation_id,
    created_at_us, committed_at_us, first_attempted_at_us,
});

impl Event {
    /// Bytes that the event takes in memory, with a flat charge for bookkeeping.
    pub fn memory(&self) -> usize {
        /// Bytes for entries in maps and queues. The number is generous, so that the limit on memory holds.
        const OVERHEAD: usize = 512;
        let texts = [&self.event_type, &self.aggregate_type, &self.aggregate_id, &self.correlation_id];
        let texts: usize = texts.into_iter().flatten().map(|text| text.0.len()).sum();
        let fixed = self.destination.len() + self.content_type.0.len() + self.headers.as_ref().map_or(0, Bytes::len);
        OVERHEAD + texts + fixed + self.body.as_ref().map_or(0, Bytes::len)
    }

    /// The event's ordering key; `None`: it has none.
    pub(crate) fn key_name(&self) -> Option<KeyName> {
        let aggregate_type = self.aggregate_type.as_ref().map(|text| text.as_str().to_owned());
        Some(KeyName { aggregate_type, aggregate_id: self.aggregate_id.as_ref()?.as_str().to_owned() })
    }
}

/// Leaves out what applications have put into the event, which must not reach the log.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, seq, destination, aggregate_type, aggregate_id, attempts, holds_key, .. } = self;
        f.debug_struct("Event")
            .field("id", id)
            .field("seq", seq)
            .field("destination", destination)
            .field("key", &(aggregate_type, aggregate_id))
            .field("body", &self.body.as_ref().map(Bytes::len))
            .field("attempts", attempts)
            .field("holds_key", holds_key)
            .finish_non_exhaustive()
    }
}

/// An ordering key by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName {
    /// `aggregate_type` of the key's events.
    pub aggregate_type: Option<String>,
    /// `aggregate_id` of the key's events.
    pub aggregate_id: String,
}

crate::marked!(KeyName { aggregate_type, aggregate_id });

/// An event in the table that holds its key: later events of the key wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    /// The key that the event holds.
    pub key: KeyName,
    /// The event.
    pub id: Uuid,
}

crate::marked!(KeyHolder { key, id });

/// UTF-8 text that shares the event's allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(Bytes);

impl Text {
    /// Checks that `bytes` are UTF-8.
    pub fn new(bytes: Bytes) -> Result<Self, std::str::Utf8Error> {
        std::str::from_utf8(&bytes)?;
        Ok(Self(bytes))
    }

    /// The bytes as text, and whether they were UTF-8. Invalid sequences are replaced.
    pub fn lossy(bytes: Bytes) -> (Self, bool) {
        match String::from_utf8_lossy(&bytes) {
            Cow::Borrowed(_) => (Self(bytes), true),
            Cow::Owned(replaced) => (Self(replaced.into()), false),
        }
    }

    /// A text that lives as long as the program.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default() // checked in `new`
    }

    /// The text's bytes, as they go on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}
