//! The columns of `outbox.events` that the extension writes or checks, with their types.

use std::ffi::CStr;

use pgrx::pg_sys::{self, BYTEAOID, JSONOID, TEXTOID, TIMESTAMPTZOID, UUIDOID};

/// A column's name and type.
type Expected = (&'static CStr, pg_sys::Oid);

const ALL: [Expected; 13] = [
    (c"id", UUIDOID),
    (c"topic", TEXTOID),
    (c"payload", JSONOID),
    (c"payload_bytes", BYTEAOID),
    (c"content_type", TEXTOID),
    (c"event_type", TEXTOID),
    (c"aggregate_type", TEXTOID),
    (c"aggregate_id", TEXTOID),
    (c"headers", JSONOID),
    (c"correlation_id", TEXTOID),
    (c"exchange", TEXTOID),
    (c"available_at", TIMESTAMPTZOID),
    (c"created_at", TIMESTAMPTZOID),
];

/// The columns that `emit` writes. Their order is that of the parameters of the INSERT in `plan.rs`.
pub(crate) const EMITTED: [Expected; 12] = {
    let [emitted @ .., _created_at] = ALL;
    emitted
};

/// The columns that the INSERT trigger reads, in the order of [`Column`].
pub(super) const CHECKED: [Expected; 12] = {
    let [_id, checked @ ..] = ALL;
    checked
};

/// A value for each column of [`EMITTED`]; `None` is null.
pub(crate) type Values = [Option<pg_sys::Datum>; EMITTED.len()];

/// A column of `outbox.events` that the INSERT trigger reads.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // sql/tables/events.sql describes them
pub(crate) enum Column {
    Topic,
    Payload,
    PayloadBytes,
    ContentType,
    EventType,
    AggregateType,
    AggregateId,
    Headers,
    CorrelationId,
    Exchange,
    AvailableAt,
    CreatedAt,
}

impl Column {
    /// The column's name in SQL.
    pub(crate) fn name(self) -> &'static str {
        CHECKED.get(self as usize).and_then(|(name, _)| name.to_str().ok()).unwrap_or_default()
    }
}
