//! A message as `tail` shows it.

use std::time::SystemTime;

use amqp_publisher::{DeliveredProperties, Delivery};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use crate::{
    format::{Tone, count, escaped, raw_json, rfc3339},
    sink,
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

/// The headers and the payload, shown only on request.
#[derive(Debug, Serialize)]
struct Body {
    headers: Map<String, Value>,
    /// The payload, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    /// The payload, if it is other text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    /// The payload, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
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
        let parts = parts.iter().filter(|(_, text)| !text.is_empty());
        let line: Vec<String> = parts.map(|(tone, text)| tone.paint(&escaped(text), in_colour)).collect();
        let body = self.body.as_ref().map(Body::lines).unwrap_or_default();
        format!("{}\n{body}", line.join("  "))
    }
}

impl Body {
    fn read(headers: Map<String, Value>, data: Vec<u8>) -> Self {
        let mut body = Self { headers, payload: None, payload_text: None, payload_base64: None };
        match String::from_utf8(data) {
            Ok(text) => match raw_json(text.clone()) {
                Some(json) => body.payload = Some(json),
                None => body.payload_text = Some(text),
            },
            Err(other) => body.payload_base64 = Some(BASE64_STANDARD.encode(other.as_bytes())),
        }
        body
    }

    fn lines(&self) -> String {
        let payload = self.payload.as_ref().map(|raw| raw.get().to_owned());
        let payload = payload.or_else(|| self.payload_text.clone());
        let payload = payload.or_else(|| self.payload_base64.clone().map(|text| format!("base64 {text}")));
        let headers = Value::Object(self.headers.clone()).to_string();
        format!("    headers  {}\n    payload  {}\n", escaped(&headers), escaped(&payload.unwrap_or_default()))
    }
}
