//! An event's headers: a JSON object becomes an AMQP table, written straight into the output.
//!
//! | JSON | AMQP |
//! |---|---|
//! | string | long string (`S`) |
//! | integer that fits | signed 64-bit (`l`) |
//! | other number | double (`d`) |
//! | true, false | boolean (`t`) |
//! | null | void (`V`) |
//! | object | table (`F`) |
//! | array | array (`A`) |

use std::fmt;

use bytes::{BufMut, BytesMut};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::wire::{SHORT_STRING_MAX, put_long_string, put_short_string, put_sized};
use crate::event::Event;

/// Writes the relay's headers and the event's own, without the table's length. A header of the event that the relay
/// sets itself is replaced.
pub(super) fn put_headers(event: &Event, out: &mut BytesMut) -> Result<(), serde_json::Error> {
    const SEQ: &str = "x-outbox-seq";
    const AGGREGATE_TYPE: &str = "aggregate_type";
    const AGGREGATE_ID: &str = "aggregate_id";
    put_short_string(out, SEQ.as_bytes());
    out.put_u8(b'l');
    out.put_i64(event.seq);
    for (name, text) in [(AGGREGATE_TYPE, &event.aggregate_type), (AGGREGATE_ID, &event.aggregate_id)] {
        if let Some(text) = text {
            put_short_string(out, name.as_bytes());
            out.put_u8(b'S');
            put_long_string(out, text.as_bytes());
        }
    }
    let replaced = |name: &str| match name {
        SEQ => true,
        AGGREGATE_TYPE => event.aggregate_type.is_some(),
        AGGREGATE_ID => event.aggregate_id.is_some(),
        _ => false,
    };
    event.headers.as_ref().map_or(Ok(()), |json| put_fields(out, json, &replaced))
}

/// Writes the fields of a JSON object. Fields that `skip` names are left out.
fn put_fields(out: &mut BytesMut, json: &[u8], skip: &dyn Fn(&str) -> bool) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(json);
    json.deserialize_map(Fields { out, skip })?;
    json.end()
}

/// The inside of a table: name, value, name, value.
struct Fields<'a> {
    out: &'a mut BytesMut,
    skip: &'a dyn Fn(&str) -> bool,
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            if (self.skip)(&name) {
                map.next_value::<serde::de::IgnoredAny>()?;
                continue;
            }
            if name.len() > SHORT_STRING_MAX {
                return Err(A::Error::custom("a header's name is longer than 255 bytes"));
            }
            put_short_string(self.out, name.as_bytes());
            map.next_value_seed(FieldValue(self.out))?;
        }
        Ok(())
    }
}

/// One value with its type before it.
struct FieldValue<'a>(&'a mut BytesMut);

impl<'de> DeserializeSeed<'de> for FieldValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldValue<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.put_u8(b't');
        self.0.put_u8(value.into());
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.put_u8(b'l');
        self.0.put_i64(value);
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64), // RabbitMQ's tables have no unsigned 64-bit type
        }
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.put_u8(b'd');
        self.0.put_f64(value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.put_u8(b'S');
        put_long_string(self.0, value.as_bytes());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.put_u8(b'V');
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.put_u8(b'A');
        put_sized(self.0, |out| {
            while seq.next_element_seed(FieldValue(out))?.is_some() {}
            Ok(())
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        self.0.put_u8(b'F');
        put_sized(self.0, |out| Fields { out, skip: &|_| false }.visit_map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(json: &str) -> Result<Vec<u8>, String> {
        let mut out = BytesMut::new();
        put_fields(&mut out, json.as_bytes(), &|name| name == "mine").map_err(|error| error.to_string())?;
        Ok(out.to_vec())
    }

    #[test]
    fn every_json_type_has_its_amqp_type() {
        assert_eq!(table(r#"{"a":"x"}"#).unwrap(), b"\x01aS\0\0\0\x01x");
        assert_eq!(table(r#"{"a":-2}"#).unwrap(), b"\x01al\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE");
        assert_eq!(table(r#"{"a":0.5}"#).unwrap(), b"\x01ad\x3F\xE0\0\0\0\0\0\0");
        assert_eq!(table(r#"{"a":18446744073709551615}"#).unwrap(), b"\x01ad\x43\xF0\0\0\0\0\0\0");
        assert_eq!(table(r#"{"a":true,"b":null}"#).unwrap(), b"\x01at\x01\x01bV");
        assert_eq!(table(r#"{"a":[false,"x"]}"#).unwrap(), b"\x01aA\0\0\0\x08t\0S\0\0\0\x01x");
        assert_eq!(table(r#"{"a":{"mine":null}}"#).unwrap(), b"\x01aF\0\0\0\x06\x04mineV");
    }

    #[test]
    fn every_number_that_the_database_admits_is_carried() {
        // As PostgreSQL prints them: the largest double, and numbers too small and too precise for one.
        let largest = format!("17976931348623157{}", "0".repeat(292));
        let smallest = format!("0.{}1", "0".repeat(16_000));
        for number in [&largest, &format!("-{largest}.{}", "0".repeat(50)), &smallest, &format!("{smallest}23456789")] {
            assert!(table(&format!(r#"{{"a":{number}}}"#)).is_ok(), "{number}");
        }
    }

    #[test]
    fn fields_that_the_relay_sets_are_left_out_at_the_top() {
        assert_eq!(table(r#"{"mine":[1,{"a":2}],"a":null}"#).unwrap(), b"\x01aV");
    }

    #[test]
    fn what_is_no_object_or_does_not_fit_is_an_error() {
        for json in ["", "1", "[]", "{", "{}x", r#"{"a":1e999}"#, &format!(r#"{{"{}":1}}"#, "k".repeat(256))] {
            assert!(table(json).is_err(), "{json}");
        }
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert!(table(&deep).is_err(), "a bounded stack");
    }
}
