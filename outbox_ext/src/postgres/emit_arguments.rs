//! The arguments of `emit`, as values of the table's columns.

use pgrx::Uuid;

use super::arguments::{BytesValue, JsonValue, TextValue, TimeValue};
use super::columns::Values;

/// The arguments of one call of `emit`.
pub(crate) struct EmitArguments {
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

impl EmitArguments {
    /// The event's row. Its datums are of the columns' types, and valid as long as the id and until the call returns.
    pub(crate) fn values(&self, id: &Uuid) -> Values {
        [
            Some(id.as_bytes().as_ptr().into()),
            self.topic.as_ref().map(TextValue::datum),
            self.payload.as_ref().map(JsonValue::datum),
            self.payload_bytes.as_ref().map(BytesValue::datum),
            self.content_type.as_ref().map(TextValue::datum),
            self.event_type.as_ref().map(TextValue::datum),
            self.aggregate_type.as_ref().map(TextValue::datum),
            self.aggregate_id.as_ref().map(TextValue::datum),
            self.headers.as_ref().map(JsonValue::datum),
            self.correlation_id.as_ref().map(TextValue::datum),
            self.exchange.as_ref().map(TextValue::datum),
            self.available_at.as_ref().map(TimeValue::datum),
        ]
    }
}
