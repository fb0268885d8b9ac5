//! The primitives of AMQP 0-9-1: bounds-checked reading, and writing into one growing buffer.
//!
//! Specification: <https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf>, section 4.2; table types as RabbitMQ has
//! them: <https://www.rabbitmq.com/amqp-0-9-1-errata.html>, section 3.

use bytes::{BufMut, BytesMut};

/// Types of frames.
pub(crate) const METHOD: u8 = 1;
pub(crate) const HEADER: u8 = 2;
pub(crate) const BODY: u8 = 3;
pub(crate) const HEARTBEAT: u8 = 8;
/// Last byte of every frame.
pub(crate) const FRAME_END: u8 = 0xCE;
/// Bytes of a frame around its payload: type, channel and length before it, the end byte after it.
pub(crate) const FRAME_OVERHEAD: usize = 8;
/// Longest short string, in bytes.
pub(crate) const SHORT_STRING_MAX: usize = 255;

/// Writes one frame. Its length is filled in once `payload` has written the payload.
pub(crate) fn put_frame(out: &mut BytesMut, kind: u8, channel: u16, payload: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    out.put_u16(channel);
    put_sized(out, payload);
    out.put_u8(FRAME_END);
}

/// Writes a content behind its length in four bytes, as tables, arrays and frames have it.
pub(crate) fn put_sized<T>(out: &mut BytesMut, content: impl FnOnce(&mut BytesMut) -> T) -> T {
    let at = out.len();
    out.put_u32(0);
    let start = out.len();
    let result = content(out);
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX); // a frame is limited to far less
    if let Some(slot) = out.get_mut(at..start) {
        slot.copy_from_slice(&length.to_be_bytes());
    }
    result
}

/// Writes a short string.
///
/// The caller has checked the length: at most [`SHORT_STRING_MAX`]. A longer string is cut, so that a mistake cannot
/// garble the bytes behind it.
#[inline] // like everything that writes a message: see `encoder`
pub(crate) fn put_short_string(out: &mut BytesMut, text: &[u8]) {
    let text = text.get(..SHORT_STRING_MAX).unwrap_or(text);
    out.put_u8(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.put_slice(text);
}

/// Writes a long string.
#[inline]
pub(crate) fn put_long_string(out: &mut BytesMut, text: &[u8]) {
    put_sized(out, |out| out.put_slice(text));
}

/// The peer's bytes break the protocol.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Reads primitives from the front of a slice.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("a frame's payload is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn short_string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// The bytes of a long string or of a table.
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// A short string as text; RabbitMQ's short strings are UTF-8.
    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        self.short_string().map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_carries_the_length_of_what_was_written() {
        let mut out = BytesMut::new();
        put_frame(&mut out, METHOD, 7, |out| put_short_string(out, b"abc"));
        assert_eq!(out.as_ref(), [1, 0, 7, 0, 0, 0, 4, 3, b'a', b'b', b'c', FRAME_END]);
    }

    #[test]
    fn reading_beyond_the_end_is_an_error() {
        assert!(Reader(&[1, 2, 3]).u32().is_err());
        assert!(Reader(&[4, b'a']).short_string().is_err());
        assert!(Reader(&[0xFF; 5]).sized().is_err());
    }
}
