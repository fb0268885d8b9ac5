//! `outbox.emit()`: one row into the table, without the cost of a statement.
//!
//! The values are handed on as they came: JSON is kept as it was written. The table's INSERT trigger checks them
//! ([`admit`]). A caller needs the right to call the function and none on the table: what may run code of somebody
//! else's runs as the table's owner, with a pinned `search_path`.

use pgrx::Uuid;
use pgrx::prelude::*;

use crate::admit;
use crate::postgres::{BytesValue, JsonValue, JsonbValue, TextValue, TimeValue};
use crate::postgres::{Given, InsertedRows, insert_event, with_all_error_fields};
use crate::refusal::Refusal;
use crate::settings::writes_directly;
use crate::uuid_v7::uuid_v7;

#[allow(clippy::too_many_arguments)] // they are the SQL function's
#[pg_extern(sql = false)]
pub(crate) fn emit_json(
    topic: Option<TextValue>,
    payload: Option<JsonValue>,
    event_type: Option<TextValue>,
    aggregate_type: Option<TextValue>,
    aggregate_id: Option<TextValue>,
    headers: Option<JsonbValue>,
    correlation_id: Option<TextValue>,
    exchange: Option<TextValue>,
    available_at: Option<TimeValue>,
) -> Uuid {
    insert(Given {
        topic,
        payload,
        payload_bytes: None,
        content_type: None,
        event_type,
        aggregate_type,
        aggregate_id,
        headers: headers.map(|headers| headers.printed()),
        correlation_id,
        exchange,
        available_at,
    })
}

/// For what has a jsonb already. It is also what the schema of earlier versions calls, which has no other for JSON.
#[allow(clippy::too_many_arguments)] // they are the SQL function's
#[pg_extern(sql = false)]
pub(crate) fn emit_jsonb(
    topic: Option<TextValue>,
    payload: Option<JsonbValue>,
    event_type: Option<TextValue>,
    aggregate_type: Option<TextValue>,
    aggregate_id: Option<TextValue>,
    headers: Option<JsonbValue>,
    correlation_id: Option<TextValue>,
    exchange: Option<TextValue>,
    available_at: Option<TimeValue>,
) -> Uuid {
    let payload = payload.map(|payload| payload.printed());
    emit_json(topic, payload, event_type, aggregate_type, aggregate_id, headers, correlation_id, exchange, available_at)
}

#[allow(clippy::too_many_arguments)] // they are the SQL function's
#[pg_extern(sql = false)]
pub(crate) fn emit_bytea(
    topic: Option<TextValue>,
    payload: Option<BytesValue>,
    event_type: Option<TextValue>,
    aggregate_type: Option<TextValue>,
    aggregate_id: Option<TextValue>,
    headers: Option<JsonbValue>,
    correlation_id: Option<TextValue>,
    exchange: Option<TextValue>,
    available_at: Option<TimeValue>,
    content_type: Option<TextValue>,
) -> Uuid {
    insert(Given {
        topic,
        payload: None,
        payload_bytes: payload,
        content_type,
        event_type,
        aggregate_type,
        aggregate_id,
        headers: headers.map(|headers| headers.printed()),
        correlation_id,
        exchange,
        available_at,
    })
}

fn insert(given: Given) -> Uuid {
    with_all_error_fields(|| {
        let id = uuid_v7();
        let admit = writes_directly().then_some(admit::ADDRESS);
        match insert_event(&id, given, admit) {
            InsertedRows(1) => id,
            _ => Refusal::NotInserted.raise(),
        }
    })
}
