//! Kafka's primitive types. A length that the other side sends is checked before anything is allocated for it.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The bytes are not what the protocol says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer ends too early, or has an impossible length")]
pub(crate) struct Malformed;

/// Reads an answer.
#[derive(Debug)]
pub(crate) struct Reader(pub(crate) Bytes);

impl Reader {
    pub(crate) fn i8(&mut self) -> Result<i8, Malformed> {
        self.0.try_get_i8().map_err(|_| Malformed)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Malformed> {
        self.0.try_get_i16().map_err(|_| Malformed)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.0.try_get_i32().map_err(|_| Malformed)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.0.try_get_i64().map_err(|_| Malformed)
    }

    /// Bytes of this length.
    pub(crate) fn take(&mut self, length: usize) -> Result<Bytes, Malformed> {
        if length > self.0.len() { Err(Malformed) } else { Ok(self.0.split_to(length)) }
    }

    /// Text; `None` as Kafka's null.
    pub(crate) fn nullable_text(&mut self) -> Result<Option<String>, Malformed> {
        let length = self.i16()?;
        if length == -1 {
            return Ok(None);
        }
        let text = self.take(usize::try_from(length).map_err(|_| Malformed)?)?;
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        self.nullable_text()?.ok_or(Malformed)
    }

    /// Bytes with their length; null as none.
    pub(crate) fn bytes(&mut self) -> Result<Bytes, Malformed> {
        match self.i32()? {
            -1 => Ok(Bytes::new()),
            length => self.take(usize::try_from(length).map_err(|_| Malformed)?),
        }
    }

    /// An array; null as an empty one. It grows with what is read, so a length that is a lie costs nothing.
    pub(crate) fn array<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let mut items = Vec::new();
        for _ in 0..self.i32()?.max(0) {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// An integer of variable length: zigzag, seven bits a byte.
    pub(crate) fn varint(&mut self) -> Result<i64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.0.try_get_u8().map_err(|_| Malformed)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        Err(Malformed)
    }

    /// Bytes with a length of variable length; `None` as Kafka's null.
    pub(crate) fn varint_bytes(&mut self) -> Result<Option<Bytes>, Malformed> {
        match self.varint()? {
            -1 => Ok(None),
            length => self.take(usize::try_from(length).map_err(|_| Malformed)?).map(Some),
        }
    }
}

/// Writes text with its length. Names are shorter than 32 KiB, or the broker refuses what is left of them.
pub(crate) fn put_text(out: &mut BytesMut, text: &str) {
    let text = text.get(..i16::MAX as usize).unwrap_or(text);
    out.put_i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
    out.put_slice(text.as_bytes());
}

/// Writes text, or Kafka's null.
pub(crate) fn put_nullable_text(out: &mut BytesMut, text: Option<&str>) {
    match text {
        Some(text) => put_text(out, text),
        None => out.put_i16(-1),
    }
}

/// Writes bytes with their length.
pub(crate) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.put_slice(bytes);
}

/// Writes an array's length, and its items.
pub(crate) fn put_array<T>(out: &mut BytesMut, items: &[T], put: impl Fn(&mut BytesMut, &T)) {
    out.put_i32(i32::try_from(items.len()).unwrap_or(i32::MAX));
    items.iter().for_each(|item| put(out, item));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_is_a_lie_costs_nothing() {
        let lie = || Reader(Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff, 1]));
        assert_eq!(lie().array(Reader::i64), Err(Malformed));
        assert_eq!(lie().bytes(), Err(Malformed));
        assert_eq!(lie().text(), Err(Malformed));
        assert_eq!(Reader(Bytes::from_static(&[0xff; 11])).varint(), Err(Malformed));
    }

    #[test]
    fn integers_of_variable_length_are_zigzag() {
        let read = |bytes: &'static [u8]| Reader(Bytes::from_static(bytes)).varint();
        assert_eq!([read(&[0]), read(&[1]), read(&[2]), read(&[0x80, 1])], [Ok(0), Ok(-1), Ok(1), Ok(64)]);
    }
}
