//! A record as `tail` shows it.

use std::time::SystemTime;

use kafka_producer::Fetched;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    format::{Tone, count, rfc3339},
    sink::{
        self,
        body::{Body, line},
    },
};

/// A record that reached a topic. Its contents cannot be trusted: anyone who may write to the topic may have written
/// them.
#[derive(Debug, Serialize)]
pub struct Message {
    received_at: String,
    topic: String,
    partition: i32,
    offset: i64,
    /// Milliseconds since the Unix epoch.
    timestamp: i64,
    key: Option<String>,
    message_id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    correlation_id: Option<String>,
    content_type: Option<String>,
    seq: Option<i64>,
    aggregate_type: Option<String>,
    payload_bytes: usize,
    #[serde(flatten)]
    body: Option<Body>,
}

impl Message {
    pub(super) fn read(record: Fetched, payload: bool) -> Self {
        let Fetched { topic, partition, offset, timestamp_ms, key, headers, value } = record;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let header = |name: &str| {
            headers
                .iter()
                .find(|(known, _)| known == name)
                .and_then(|(_, value)| value.as_ref())
                .map(|value| text(value))
        };
        let payload_bytes = value.as_ref().map_or(0, |value| value.len());
        let shown = |(name, value): &(String, Option<bytes::Bytes>)| {
            (name.clone(), value.as_ref().map_or(Value::Null, |value| Value::String(text(value))))
        };
        Self {
            received_at: rfc3339(SystemTime::now()),
            partition,
            offset,
            timestamp: timestamp_ms,
            key: key.map(|key| text(&key)),
            message_id: header("id").map(|id| id.trim_matches('"').to_owned()), // in Debezium's form it is JSON
            kind: header("type"),
            correlation_id: header("correlation_id"),
            content_type: header("content-type"),
            seq: header("x-outbox-seq").and_then(|seq| seq.parse().ok()),
            aggregate_type: header("aggregate_type"),
            payload_bytes,
            body: payload.then(|| {
                let headers: Map<String, Value> = headers.iter().map(shown).collect();
                Body::read(headers, value.map(|value| value.to_vec()).unwrap_or_default())
            }),
            topic,
        }
    }
}

impl sink::Message for Message {
    fn line(&self, in_colour: bool) -> String {
        let key = [&self.aggregate_type, &self.key].into_iter().flatten().cloned().collect::<Vec<_>>().join("/");
        let size = count(i64::try_from(self.payload_bytes).unwrap_or(i64::MAX), "byte");
        let parts = [
            (Tone::Dim, self.received_at.clone()),
            (Tone::Bold, self.topic.clone()),
            (Tone::Plain, self.message_id.clone().unwrap_or_default()),
            (Tone::Plain, key),
            (Tone::Dim, size),
        ];
        line(&parts, self.body.as_ref(), in_colour)
    }
}
