//! Leaves out headers and properties over which RabbitMQ or one of its plugins crashes.
//!
//! `emit()` rejects all of them (`outbox_ext/src/reserved.rs` has the reasons, and the same lists). A row can contain
//! them all the same, if an earlier version has accepted it or it was inserted past the checks.

use std::cell::Cell;

use amqp_publisher::{Headers, InvalidHeaders};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The header that becomes the AMQP property `content_encoding`.
pub(super) const CONTENT_ENCODING: &str = "content-encoding";

/// The AMQP `type` that makes RabbitMQ decode the body as AMQP 1.0.
pub(super) const AMQP_1_0: &[u8] = b"amqp-1.0";

/// Whether a correlation id has the form `urn:uuid:…` but contains no uuid, for which RabbitMQ 4 closes the connection.
pub(super) fn is_broken_urn(correlation_id: &str) -> bool {
    let uuid = correlation_id.strip_prefix("urn:uuid:").filter(|uuid| uuid.len() == 36);
    uuid.is_some_and(|uuid| uuid::Uuid::try_parse(uuid).is_err())
}

/// Whether only RabbitMQ or one of its plugins writes this header.
fn is_brokers(name: &str) -> bool {
    let written = ["x-death", "x-delivery-count", "x-invalid-headers", "x-received-from", "x-stream-offset"];
    let families = ["x-amqp-1.0-", "x-basic-", "x-mqtt-"];
    written.contains(&name) || families.iter().any(|family| name.starts_with(family))
}

/// The check whether RabbitMQ and its plugins accept a value of this header; `None`: they accept any.
fn shape(name: &str) -> Option<fn(&Value) -> bool> {
    match name {
        "x-cache-ttl" => Some(Value::is_number),
        "x-delay" => Some(|value| {
            let is_digits =
                |text: &str| (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
            value.is_number() || value.as_str().is_some_and(is_digits)
        }),
        "x-correlation-id" | "x-reply-to-topic" => Some(Value::is_string),
        "x-stream-filter-value" => Some(|value| value.as_str().is_some_and(|text| text.len() <= 4096)),
        "x-deduplication-header" => Some(|value| value.is_string() || value.is_number() || value.is_boolean()),
        _ => None,
    }
}

/// Writes the headers of a JSON object, without those that `skip` selects and those that would harm the broker.
pub(super) fn put(headers: &mut Headers<'_>, json: &[u8], skip: impl Fn(&str) -> bool) -> Result<(), InvalidHeaders> {
    let has_shaped = Cell::new(false);
    headers.json(json, |name| {
        if !name.starts_with("x-") {
            return skip(name); // the usual case
        }
        let is_shaped = shape(name).is_some();
        has_shaped.set(has_shaped.get() || is_shaped);
        is_shaped || is_brokers(name) || skip(name)
    })?;
    if !has_shaped.get() {
        return Ok(());
    }
    for (name, value) in serde_json::from_slice::<Map<String, Value>>(json)? {
        if !skip(&name) && shape(&name).is_some_and(|fits| fits(&value)) {
            let alone = Value::Object(Map::from_iter([(name, value)]));
            headers.json(alone.to_string().as_bytes(), |_| false)?;
        }
    }
    Ok(())
}

/// The header `content-encoding`, if its value can be an AMQP property.
pub(super) fn content_encoding(json: &[u8]) -> Option<&[u8]> {
    #[derive(Deserialize)]
    struct Encoded<'a> {
        #[serde(rename = "content-encoding", borrow)]
        encoding: &'a str,
    }
    // A search is quicker than parsing; the check for `{` is needed because serde would read an array as the struct.
    let is_candidate = |json: &&str| json.contains(CONTENT_ENCODING) && json.trim_start().starts_with('{');
    let json = str::from_utf8(json).ok().filter(is_candidate)?;
    let Encoded { encoding } = serde_json::from_str(json).ok()?;
    let can_be = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~, -".contains(&byte);
    let is_name = (1..=255).contains(&encoding.len()) && encoding.bytes().all(can_be);
    is_name.then_some(encoding.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_is_the_headers_own_and_fits_a_property() {
        assert_eq!(content_encoding(br#"{"a": 1, "content-encoding": "gzip"}"#), Some(&b"gzip"[..]));
        for none in [
            r#"{"a": {"content-encoding": "gzip"}}"#,
            r#"{"content-encoding": 5}"#,
            r#"{"content-encoding": ""}"#,
            r#"{"content-encoding": "a\"b"}"#,
            r#"{"a": "content-encoding"}"#,
            r#"["content-encoding"]"#,
            &format!(r#"{{"content-encoding": "{}"}}"#, "x".repeat(256)),
        ] {
            assert_eq!(content_encoding(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn a_value_has_its_shape_or_is_left_out() {
        for (name, good, bad) in [
            ("x-delay", vec!["5", "1.5", r#""500""#], vec!["null", r#""5s""#, r#""""#, "[5]", "true"]),
            ("x-cache-ttl", vec!["5"], vec![r#""5""#, "null"]),
            ("x-reply-to-topic", vec![r#""a""#], vec!["5", "null", "[]"]),
            ("x-stream-filter-value", vec![r#""a""#], vec!["5", "{}"]),
            ("x-deduplication-header", vec![r#""a""#, "5", "false"], vec!["null", "[1]", "{}"]),
        ] {
            let fits = |json: &&str| shape(name).unwrap()(&serde_json::from_str(json).unwrap());
            assert!(good.iter().all(fits) && !bad.iter().any(fits), "{name}");
        }
        assert!(shape("x-other").is_none());
    }

    #[test]
    fn only_what_is_as_long_as_a_uuid_is_looked_at() {
        let uuid = "f81d4fae-7dec-11d0-A765-00a0c91e6bf6";
        assert!(!is_broken_urn(uuid) && !is_broken_urn(&format!("urn:uuid:{uuid}")) && !is_broken_urn("urn:uuid:5"));
        assert!(is_broken_urn(&format!("urn:uuid:{}", uuid.replace('f', "g"))));
        assert!(is_broken_urn(&format!("urn:uuid:{}", uuid.replace('-', "0"))));
    }

    #[test]
    fn the_brokers_own_headers_are_known_by_name_and_by_family() {
        assert!(["x-death", "x-basic-type", "x-amqp-1.0-footer", "x-mqtt-publish-qos"].into_iter().all(is_brokers));
        assert!(!["x-deaths", "X-Death", "x-basic", "x-outbox-seq", "x-opt-partition-key"].into_iter().any(is_brokers));
    }
}
