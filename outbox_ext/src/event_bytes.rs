//! `outbox.event_bytes()`: the size of an event in the relay's memory, by which the relay bounds its pages.

use pgrx::prelude::*;

use crate::postgres::{BytesValue, JsonValue};

/// Bytes of an event's body and headers, uncompressed. A body that is stored out of line is not fetched.
#[pg_extern(sql = false)]
pub(crate) fn event_bytes(
    payload: Option<JsonValue>,
    payload_bytes: Option<BytesValue>,
    headers: Option<JsonValue>,
) -> i64 {
    let body = payload_bytes.map(|bytes| bytes.size()).or_else(|| payload.map(|payload| payload.size()));
    let headers = headers.map(|headers| headers.size());
    i64::try_from(body.unwrap_or(0) + headers.unwrap_or(0)).unwrap_or(i64::MAX)
}
