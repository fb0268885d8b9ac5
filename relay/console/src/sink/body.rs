//! The contents of a message, as `tail` shows them.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use crate::format::{Tone, escaped, raw_json};

/// The headers and the payload, shown only on request.
#[derive(Debug, Serialize)]
pub(super) struct Body {
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

impl Body {
    pub(super) fn read(headers: Map<String, Value>, data: Vec<u8>) -> Self {
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

/// Formats a message for people: its parts in one line, and further lines for its contents.
pub(super) fn line(parts: &[(Tone, String)], body: Option<&Body>, in_colour: bool) -> String {
    let parts = parts.iter().filter(|(_, text)| !text.is_empty());
    let line: Vec<String> = parts.map(|(tone, text)| tone.paint(&escaped(text), in_colour)).collect();
    format!("{}\n{}", line.join("  "), body.map(Body::lines).unwrap_or_default())
}
