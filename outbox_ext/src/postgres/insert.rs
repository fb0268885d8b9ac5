//! The INSERT of `emit`.

use super::arguments::{BytesValue, JsonValue, TextValue, TimeValue};
use super::backend::SqlFunction;
use super::columns::Values;
use super::plan::InsertedRows;
use super::{direct_insert, plan};

/// What a call of `emit` was given, but for the id.
pub(crate) struct Given {
    pub(crate) topic: Option<TextValue>,
    pub(crate) payload: Option<JsonValue>,
    pub(crate) payload_bytes: Option<BytesValue>,
    pub(crate) content_type: Option<TextValue>,
    pub(crate) event_type: Option<TextValue>,
    pub(crate) aggregate_type: Option<TextValue>,
    pub(crate) aggregate_id: Option<TextValue>,
    pub(crate) headers: Option<JsonValue>,
    pub(crate) correlation_id: Option<TextValue>,
    pub(crate) exchange: Option<TextValue>,
    pub(crate) available_at: Option<TimeValue>,
}

/// Inserts one event. An error of the INSERT ends the statement.
///
/// With `admit`, the function of the extension's own INSERT trigger, a table as the extension made it is inserted into
/// directly. A table to which somebody else has added triggers, policies or the like needs a statement, which these are
/// meant for. Without `admit` the event is always inserted by a statement.
pub(crate) fn insert_event(id: &pgrx::Uuid, given: Given, admit: Option<SqlFunction>) -> InsertedRows {
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
        if admit.is_some_and(|admit| direct_insert::insert(&values, admit)) {
            return InsertedRows(1);
        }
        plan::insert(&values)
    }
}
