//! The form of a record: the relay's own, or that of Debezium's outbox event router.

use std::{borrow::Cow, collections::BTreeMap};

use kafka_producer::Headers;
use outbox_core::{Event, Text};
use serde_json::value::RawValue;
use uuid::Uuid;

/// The form of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// As docs/kafka.md describes it.
    None,
    /// As Debezium Server's outbox event router makes it with the format `json`, without schemas.
    Debezium,
}

/// The header with the number of replays, which an event has that was replayed.
pub(super) const REPLAY: &str = "x-outbox-replay";

/// The key in Debezium's form: JSON.
pub(super) fn debezium_key(event: &Event) -> Option<Box<[u8]>> {
    event.aggregate_id.as_ref().map(|key| json(key).into_bytes().into())
}

/// The headers in Debezium's form: the id and those of the event, as JSON. A span's context is no part of it, and stays
/// as every reader of it expects it. Nor is a replay, by whose number the relay recognizes what it reads back.
pub(super) fn put_debezium_headers(
    event: &Event,
    traceparent: Option<&str>,
    headers: &mut Headers<'_>,
) -> Result<(), String> {
    let mut id = Uuid::encode_buffer();
    headers.put("id", format!("\"{}\"", event.id.hyphenated().encode_lower(&mut id)).as_bytes());
    if let Some(text) = traceparent {
        headers.put("traceparent", text.as_bytes());
    }
    if event.replays > 0 {
        headers.put(REPLAY, event.replays.to_string().as_bytes());
    }
    for (name, value) in own(event)? {
        if name != "id" && name != REPLAY && (name != "traceparent" || traceparent.is_none()) {
            headers.put(&name, value.get().as_bytes());
        }
    }
    Ok(())
}

/// The event's own headers, each with its value as JSON.
pub(super) fn own(event: &Event) -> Result<BTreeMap<Cow<'_, str>, &RawValue>, String> {
    let Some(json) = &event.headers else { return Ok(BTreeMap::new()) };
    serde_json::from_slice(json).map_err(|error| format!("its headers are no JSON object: {error}"))
}

fn json(text: &Text) -> String {
    serde_json::Value::from(text.as_str()).to_string()
}
