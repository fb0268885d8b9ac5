//! A message as `tail` shows it.

use std::time::SystemTime;

use amqp_publisher::{DeliveredProperties, Delivery};
use serde::Serialize;
use serde_json::Value;

use crate::{
    format::{Tone, count, rfc3339},
    sink::{
        self,
        body::{Body, line},
    },
};

/// A message that reached the exchange. Its contents cannot be trusted: anyone who may publish to the exchange may have
/// written them.
#[derive(Debug, Serialize)]
pub struct Message {
    received_at: String,
    exchange: String,
    routing_key: String,
    message_id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    correlation_id: Option<String>,
    app_id: Option<String>,
    /// Seconds since the Unix epoch.
    timestamp: Option<u64>,
    content_type: Option<String>,
    seq: Option<i64>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    redelivered: bool,
    payload_bytes: usize,
    #[serde(flatten)]
    body: Option<Body>,
}

impl Message {
    pub(super) fn read(delivery: Delivery, payload: bool) -> Self {
        let Delivery { exchange, routing_key, redelivered, properties, body, .. } = delivery;
        let DeliveredProperties { content_type, headers, correlation_id, message_id, timestamp, kind, app_id } =
            properties;
        let text = |name: &str| headers.get(name)?.as_str().map(str::to_owned);
        Self {
            received_at: rfc3339(SystemTime::now()),
            exchange,
            routing_key,
            message_id,
            kind,
            correlation_id,
            app_id,
            timestamp,
            content_type,
            seq: headers.get("x-outbox-seq").and_then(Value::as_i64),
            aggregate_type: text("aggregate_type"),
            aggregate_id: text("aggregate_id"),
            redelivered,
            payload_bytes: body.len(),
            body: payload.then(|| Body::read(headers, body)),
        }
    }
}

impl sink::Message for Message {
    fn line(&self, in_colour: bool) -> String {
        let key =
            [&self.aggregate_type, &self.aggregate_id].into_iter().flatten().cloned().collect::<Vec<_>>().join("/");
        let id = self.message_id.clone().unwrap_or_default();
        let size = count(i64::try_from(self.payload_bytes).unwrap_or(i64::MAX), "byte");
        let parts = [
            (Tone::Dim, self.received_at.clone()),
            (Tone::Bold, self.routing_key.clone()),
            (Tone::Plain, id),
            (Tone::Plain, key),
            (Tone::Dim, size),
        ];
        line(&parts, self.body.as_ref(), in_colour)
    }
}
