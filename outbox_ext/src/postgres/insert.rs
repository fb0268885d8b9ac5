//! The INSERT of `emit`.

use pgrx::pg_sys;

use super::{BytesValue, JsonbValue, TextValue, TimeValue, direct_insert, plan};

/// The columns that `emit` gives a value, and then those that a call of it may leave out.
pub(super) const COLUMNS: [&std::ffi::CStr; 12] = [
    c"id",
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
];

/// Their types.
pub(super) const TYPES: [pg_sys::Oid; COLUMNS.len()] = {
    use pg_sys::{BYTEAOID as BYTEA, JSONBOID as JSONB, TEXTOID as TEXT, TIMESTAMPTZOID as TIME, UUIDOID as UUID};
    [UUID, TEXT, JSONB, BYTEA, TEXT, TEXT, TEXT, TEXT, JSONB, TEXT, TEXT, TIME]
};

/// A value for each of [`COLUMNS`].
pub(super) type Values = [Option<pg_sys::Datum>; COLUMNS.len()];

/// What a call of `emit` was given, but for the id.
pub(crate) struct Given {
    pub(crate) topic: Option<TextValue>,
    pub(crate) payload: Option<JsonbValue>,
    pub(crate) payload_bytes: Option<BytesValue>,
    pub(crate) content_type: Option<TextValue>,
    pub(crate) event_type: Option<TextValue>,
    pub(crate) aggregate_type: Option<TextValue>,
    pub(crate) aggregate_id: Option<TextValue>,
    pub(crate) headers: Option<JsonbValue>,
    pub(crate) correlation_id: Option<TextValue>,
    pub(crate) exchange: Option<TextValue>,
    pub(crate) available_at: Option<TimeValue>,
}

/// How many rows an INSERT made.
pub(crate) struct InsertedRows(pub(crate) u64);

/// Inserts one event. An error of the INSERT ends the statement.
///
/// A table as the extension made it is inserted into directly; one with triggers, policies or the like of somebody else's
/// by the statement that these are meant for.
pub(crate) fn insert_event(id: &pgrx::Uuid, given: Given) -> InsertedRows {
    let values: Values = [
        Some(id.as_bytes().as_ptr().into()),
        given.topic.map(|value| value.datum()),
        given.payload.map(|value| value.datum()),
        given.payload_bytes.map(|value| value.datum()),
        given.content_type.map(|value| value.datum()),
        given.event_type.map(|value| value.datum()),
        given.aggregate_type.map(|value| value.datum()),
        given.aggregate_id.map(|value| value.datum()),
        given.headers.map(|value| value.datum()),
        given.correlation_id.map(|value| value.datum()),
        given.exchange.map(|value| value.datum()),
        given.available_at.map(|value| value.datum()),
    ];
    // SAFETY: the datums are values of the columns' types, and valid until this call returns.
    unsafe {
        if direct_insert::insert(&values) {
            return InsertedRows(1);
        }
        plan::insert(&values)
    }
}
