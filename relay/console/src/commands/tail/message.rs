//! One message as it is shown.

use std::time::SystemTime;

use base64::{Engine, prelude::BASE64_STANDARD};
use lapin::{
    message::Delivery,
    types::{AMQPValue, FieldTable},
};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use crate::format::{Tone, count, escaped, raw_json, rfc3339};

/// A message that reached the exchange. Nothing in it can be trusted: anybody who may publish there has written it.
#[derive(Debug, Serialize)]
pub(super) struct Message {
    received_at: String,
    exchange: String,
    routing_key: String,
    message_id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    correlation_id: Option<String>,
    app_id: Option<String>,
    /// Seconds since 1970.
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

/// What a message carries. Shown only when asked for.
#[derive(Debug, Serialize)]
struct Body {
    headers: Value,
    /// A body that is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    /// One that is other text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    /// Any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

impl Message {
    pub(super) fn read(delivery: Delivery, payload: bool) -> Self {
        let Delivery { exchange, routing_key, redelivered, properties, data, .. } = delivery;
        let nothing = FieldTable::default();
        let headers = properties.headers().as_ref().unwrap_or(&nothing);
        let header = |name: &str| headers.inner().get(name);
        let text = |name: &str| match header(name)? {
            AMQPValue::LongString(text) => Some(lossy(text.as_bytes())),
            _ => None,
        };
        let property = |text: &Option<lapin::types::ShortString>| text.as_ref().map(ToString::to_string);
        Self {
            received_at: rfc3339(SystemTime::now()),
            exchange: exchange.to_string(),
            routing_key: routing_key.to_string(),
            message_id: property(properties.message_id()),
            kind: property(properties.kind()),
            correlation_id: property(properties.correlation_id()),
            app_id: property(properties.app_id()),
            timestamp: *properties.timestamp(),
            content_type: property(properties.content_type()),
            seq: header("x-outbox-seq").and_then(AMQPValue::as_long_long_int),
            aggregate_type: text("aggregate_type"),
            aggregate_id: text("aggregate_id"),
            redelivered,
            payload_bytes: data.len(),
            body: payload.then(|| Body::read(headers, data)),
        }
    }

    /// A line for people, and further ones for what it carries.
    pub(super) fn line(&self, in_colour: bool) -> String {
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
    fn read(headers: &FieldTable, data: Vec<u8>) -> Self {
        let mut body = Self { headers: object(headers), payload: None, payload_text: None, payload_base64: None };
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
        format!(
            "    headers  {}\n    payload  {}\n",
            escaped(&self.headers.to_string()),
            escaped(&payload.unwrap_or_default())
        )
    }
}

fn object(table: &FieldTable) -> Value {
    let entries = table.inner().iter().map(|(name, field)| (name.to_string(), value(field)));
    Value::Object(entries.collect::<Map<_, _>>())
}

/// An AMQP value as JSON; bytes and what JSON has no word for as text.
fn value(field: &AMQPValue) -> Value {
    match field {
        AMQPValue::Boolean(yes) => Value::from(*yes),
        AMQPValue::ShortShortInt(number) => Value::from(*number),
        AMQPValue::ShortShortUInt(number) => Value::from(*number),
        AMQPValue::ShortInt(number) => Value::from(*number),
        AMQPValue::ShortUInt(number) => Value::from(*number),
        AMQPValue::LongInt(number) => Value::from(*number),
        AMQPValue::LongUInt(number) => Value::from(*number),
        AMQPValue::LongLongInt(number) => Value::from(*number),
        AMQPValue::Float(number) => Value::from(*number),
        AMQPValue::Double(number) => Value::from(*number),
        AMQPValue::Timestamp(number) => Value::from(*number),
        AMQPValue::ShortString(text) => Value::from(text.to_string()),
        AMQPValue::LongString(text) => Value::from(lossy(text.as_bytes())),
        AMQPValue::FieldArray(values) => values.as_slice().iter().map(value).collect(),
        AMQPValue::FieldTable(table) => object(table),
        AMQPValue::Void => Value::Null,
        other => Value::from(format!("{other:?}")),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
