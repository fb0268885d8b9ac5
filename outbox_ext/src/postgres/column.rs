//! The columns by name.

use std::ffi::CStr;

/// The columns of `outbox.events` that the trigger looks at.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // sql/events.sql says what they are
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

/// The names of the columns, in the order of the enum.
pub(super) const NAMES: [&CStr; 12] = [
    c"topic",
    c"payload",
    c"payload_bytes",
    c"content_type",
    c"event_type",
    c"aggregate_type",
    c"aggregate_id",
    c"headers",
    c"correlation_id",
    c"exchange",
    c"available_at",
    c"created_at",
];

impl Column {
    /// Its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        NAMES.get(self as usize).and_then(|name| name.to_str().ok()).unwrap_or_default()
    }
}
