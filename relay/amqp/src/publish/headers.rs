//! Headers: an AMQP table, written straight into the output.
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

use std::{borrow::Cow, fmt};

use bytes::{BufMut, BytesMut};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::protocol::wire::{SHORT_STRING_MAX, put_long_string, put_short_string, put_sized};

/// The headers of one message, as far as they are written. Write each name once: a table has no duplicates.
#[derive(Debug)]
pub struct Headers<'a> {
    out: &'a mut BytesMut,
}

/// A header that AMQP cannot carry: its name is longer than 255 bytes, or the JSON is no object, holds a number that is
/// no double, or is nested too deep.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct InvalidHeaders(#[from] serde_json::Error);

impl<'a> Headers<'a> {
    #[inline]
    pub(crate) fn new(out: &'a mut BytesMut) -> Self {
        Self { out }
    }

    /// Writes a whole number.
    ///
    /// # Errors
    ///
    /// The name is too long.
    #[inline]
    pub fn integer(&mut self, name: &str, value: i64) -> Result<(), InvalidHeaders> {
        put_name::<serde_json::Error>(self.out, name)?;
        FieldValue(self.out).visit_i64(value).map_err(InvalidHeaders)
    }

    /// Writes text. Bytes that are no text are written as they are.
    ///
    /// # Errors
    ///
    /// The name is too long.
    #[inline]
    pub fn text(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidHeaders> {
        put_name::<serde_json::Error>(self.out, name)?;
        self.out.put_u8(b'S');
        put_long_string(self.out, value);
        Ok(())
    }

    /// Writes every field of a JSON object except those that `skip` names. Integers that fit become signed 64-bit
    /// numbers, other numbers doubles; objects become tables, arrays arrays, null void.
    ///
    /// # Errors
    ///
    /// See [`InvalidHeaders`].
    pub fn json(&mut self, object: &[u8], skip: impl Fn(&str) -> bool) -> Result<(), InvalidHeaders> {
        let mut json = serde_json::Deserializer::from_slice(object);
        json.deserialize_map(Fields { out: self.out, skip: &skip })?;
        Ok(json.end()?)
    }
}

fn put_name<E: Error>(out: &mut BytesMut, name: &str) -> Result<(), E> {
    if name.len() > SHORT_STRING_MAX {
        return Err(E::custom("a header's name is longer than 255 bytes"));
    }
    put_short_string(out, name.as_bytes());
    Ok(())
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
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            if (self.skip)(&name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            put_name::<A::Error>(self.out, &name)?;
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
        Headers::new(&mut out).json(json.as_bytes(), |name| name == "mine").map_err(|error| error.to_string())?;
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
    fn typed_headers_are_written_as_those_of_json_are() {
        let mut out = BytesMut::new();
        let mut headers = Headers::new(&mut out);
        headers.integer("a", -2).unwrap();
        headers.text("b", b"x").unwrap();
        assert!(headers.text(&"n".repeat(256), b"x").is_err() && headers.integer(&"n".repeat(256), 1).is_err());
        assert_eq!(out.to_vec(), table(r#"{"a":-2,"b":"x"}"#).unwrap());
    }

    #[test]
    fn skipped_fields_are_left_out_at_the_top() {
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
