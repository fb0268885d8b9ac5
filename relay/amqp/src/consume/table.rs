//! AMQP's tables as JSON.

use serde_json::{Map, Value};

use crate::protocol::wire::{Malformed, Reader};

/// Deepest nesting of tables and arrays that is read. A frame has room for tens of thousands, each a call on the stack.
const DEPTH_MAX: usize = 64;

/// Reads a table.
pub(crate) fn table(bytes: &[u8]) -> Result<Map<String, Value>, Malformed> {
    fields(bytes, 0)
}

fn fields(bytes: &[u8], depth: usize) -> Result<Map<String, Value>, Malformed> {
    let mut reader = Reader(bytes);
    let mut fields = Map::new();
    while !reader.0.is_empty() {
        fields.insert(reader.text()?, value(&mut reader, depth)?);
    }
    Ok(fields)
}

/// Reads a value behind its type (<https://www.rabbitmq.com/amqp-0-9-1-errata.html>, section 3).
fn value(reader: &mut Reader<'_>, depth: usize) -> Result<Value, Malformed> {
    Ok(match reader.u8()? {
        b't' => Value::from(reader.u8()? != 0),
        b'b' => Value::from(reader.u8()?.cast_signed()),
        b'B' => Value::from(reader.u8()?),
        b's' => Value::from(reader.u16()?.cast_signed()),
        b'u' => Value::from(reader.u16()?),
        b'I' => Value::from(reader.u32()?.cast_signed()),
        b'i' => Value::from(reader.u32()?),
        b'l' => Value::from(reader.u64()?.cast_signed()),
        b'f' => Value::from(f32::from_bits(reader.u32()?)),
        b'd' => Value::from(f64::from_bits(reader.u64()?)),
        b'D' => {
            let scale = reader.u8()?;
            Value::from(format!("{}e-{scale}", reader.u32()?.cast_signed()))
        }
        b'S' | b'x' => Value::from(String::from_utf8_lossy(reader.sized()?)),
        b'T' => Value::from(reader.u64()?),
        b'A' => nested(reader.sized()?, depth, array)?,
        b'F' => nested(reader.sized()?, depth, |bytes, depth| fields(bytes, depth).map(Value::Object))?,
        b'V' => Value::Null,
        _ => return Err(Malformed("a header is of an unknown type")),
    })
}

fn array(bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let mut reader = Reader(bytes);
    let mut values = Vec::new();
    while !reader.0.is_empty() {
        values.push(value(&mut reader, depth)?);
    }
    Ok(Value::Array(values))
}

fn nested(
    bytes: &[u8],
    depth: usize,
    read: impl FnOnce(&[u8], usize) -> Result<Value, Malformed>,
) -> Result<Value, Malformed> {
    if depth < DEPTH_MAX { read(bytes, depth + 1) } else { Ok(Value::from("…")) }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{protocol::wire::put_sized, publish::headers::Headers};

    #[test]
    fn headers_that_the_publisher_writes_are_read_back() {
        let json = json!({
            "text": "größe", "n": -5, "big": 1e300, "half": 0.5, "yes": true, "no": false, "null": null,
            "list": [1, "x", [null], {"a": {}}], "table": {"a": [], "b": "c"},
        });
        let mut out = BytesMut::new();
        Headers::new(&mut out).json(json.to_string().as_bytes(), |_| false).unwrap();
        assert_eq!(table(&out).map(Value::Object), Ok(json));
    }

    #[test]
    fn values_that_other_clients_write_are_read() {
        let bytes =
            b"\x01at\x01\x01bb\xff\x01cB\xff\x01ds\xff\xfe\x01eu\xff\xfe\x01fI\xff\xff\xff\xfd\x01gi\xff\xff\xff\xff\
                      \x01hf\x3f\x80\0\0\x01iD\x02\0\0\x01\x3a\x01jx\0\0\0\x02\xc3\x28\x01kT\0\0\0\0\0\0\0\x05";
        let json = json!({
            "a": true, "b": -1, "c": 255, "d": -2, "e": 65534, "f": -3, "g": u32::MAX, "h": 1.0, "i": "314e-2",
            "j": "\u{fffd}(", "k": 5,
        });
        assert_eq!(table(bytes).map(Value::Object), Ok(json));
        assert!(table(b"\x01a?").is_err() && table(b"\x01aS\0\0\0\x05abc").is_err());
    }

    #[test]
    fn tables_that_are_nested_too_deep_are_cut() {
        let mut bytes = BytesMut::new();
        for _ in 0..20_000 {
            let inner = bytes.split();
            bytes.put_slice(b"A");
            put_sized(&mut bytes, |out| out.put_slice(&inner));
        }
        let headers = table(&[b"\x01a", &bytes[..]].concat()).unwrap();
        assert_eq!(Value::Object(headers).to_string().matches('[').count(), DEPTH_MAX);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = table(&bytes);
        }
    }
}
