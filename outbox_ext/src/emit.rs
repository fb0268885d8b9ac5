//! `outbox.emit()`: one row into the table, without the cost of a statement where the table allows it.
//!
//! JSON is kept as it was written. The table's INSERT trigger checks the row ([`admit`]). A caller needs the right to
//! call the function, and none on the table: triggers, defaults and indexes of the user's run as the table's owner,
//! with a pinned `search_path`.

use pgrx::Uuid;
use pgrx::prelude::*;

use crate::emit_error::EmitError;
use crate::postgres::{BytesValue, JsonValue, JsonbValue, TextValue, TimeValue};
use crate::postgres::{EmitArguments, plan, with_all_error_fields};
use crate::uuid_v7::uuid_v7;
use crate::{admit, executor};

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
    insert(EmitArguments {
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

/// `emit` for a payload that is a jsonb already. The schema of earlier versions calls it for every JSON.
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
    insert(EmitArguments {
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

fn insert(arguments: EmitArguments) -> Uuid {
    with_all_error_fields(|| {
        let id = uuid_v7();
        let is_inserted = executor::insert(&id, &arguments, admit::ADDRESS) || plan::insert(&id, &arguments);
        if !is_inserted {
            EmitError::NotInserted.raise();
        }
        id
    })
}
