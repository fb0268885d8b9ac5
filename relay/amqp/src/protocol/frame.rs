//! Whole frames, taken from the bytes that the broker has sent.

use bytes::{Buf, BytesMut};
use uuid::Uuid;

use super::{
    method::{BASIC, Method},
    wire::{BODY, FRAME_END, FRAME_OVERHEAD, HEADER, HEARTBEAT, METHOD, Malformed, Reader},
};

/// A frame from the broker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<C = Content> {
    /// The channel's number; 0 is the connection itself.
    pub(crate) channel: u16,
    pub(crate) content: C,
}

/// The content of a frame, as a publisher reads it. The caller knows the bodies of returned messages, so only their
/// size is kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Method(Method),
    /// Content header of a returned message.
    Header {
        /// Size of the body that follows, in bytes, over all its frames.
        body: u64,
        /// The message's id.
        message_id: Option<Uuid>,
    },
    /// Part of a body, in bytes.
    Body(u64),
    Heartbeat,
}

/// Removes the first frame from `received` as a publisher reads it. See [`take_frame`].
pub(crate) fn next_frame(received: &mut BytesMut, frame_max: usize) -> Result<Option<Frame>, Malformed> {
    take_frame(received, frame_max, |kind, payload| {
        Ok(match kind {
            METHOD => Content::Method(Method::read(payload)?),
            HEADER => content_header(payload)?,
            BODY => Content::Body(payload.len() as u64),
            HEARTBEAT => Content::Heartbeat,
            _ => return Err(UNKNOWN_TYPE),
        })
    })
}

/// A frame is of none of AMQP's types.
pub(crate) const UNKNOWN_TYPE: Malformed = Malformed("a frame is of an unknown type");

/// Removes the first frame from `received`, with its type and payload as `read` understands them. `None`: the frame is
/// not complete yet.
///
/// The longest frame that was agreed on, `frame_max` bytes, bounds what is collected.
pub(crate) fn take_frame<C>(
    received: &mut BytesMut,
    frame_max: usize,
    read: impl FnOnce(u8, &[u8]) -> Result<C, Malformed>,
) -> Result<Option<Frame<C>>, Malformed> {
    let mut reader = Reader(received);
    let Ok(kind) = reader.u8() else { return Ok(None) };
    if kind == b'A' {
        return Err(Malformed("the server wants another version of AMQP"));
    }
    let (Ok(channel), Ok(length)) = (reader.u16(), reader.u32()) else {
        return Ok(None);
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > frame_max.saturating_sub(FRAME_OVERHEAD) {
        return Err(Malformed("a frame is longer than agreed"));
    }
    let (Ok(payload), Ok(end)) = (reader.take(length), reader.u8()) else {
        return Ok(None);
    };
    if end != FRAME_END {
        return Err(Malformed("a frame does not end where it should"));
    }
    let content = read(kind, payload)?;
    received.advance(length + FRAME_OVERHEAD);
    Ok(Some(Frame { channel, content }))
}

/// The content header of a message: class, weight, body size, property flags, properties.
fn content_header(payload: &[u8]) -> Result<Content, Malformed> {
    /// The properties that come before `message_id`, from the flags' highest bit on.
    enum Property {
        Short,
        Table,
        Byte,
    }
    use Property::{Byte, Short, Table};
    // content-type, content-encoding, headers, delivery-mode, priority, correlation-id, reply-to, expiration
    const BEFORE_ID: [Property; 8] = [Short, Short, Table, Byte, Byte, Short, Short, Short];
    const MESSAGE_ID: u16 = 1 << 7;

    let mut reader = Reader(payload);
    if reader.u16()? != BASIC {
        return Err(Malformed("content is not of class basic"));
    }
    reader.u16()?; // weight: unused
    let body = reader.u64()?;
    let flags = reader.u16()?;
    for (place, property) in BEFORE_ID.iter().enumerate() {
        if flags & (0x8000 >> place) != 0 {
            match property {
                Short => drop(reader.short_string()?),
                Table => drop(reader.sized()?),
                Byte => drop(reader.u8()?),
            }
        }
    }
    let message_id = if flags & MESSAGE_ID == 0 { None } else { Uuid::try_parse_ascii(reader.short_string()?).ok() };
    Ok(Content::Header { body, message_id })
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::wire::put_frame;

    const FRAME_MAX: usize = 4096;

    fn ack(tag: u64) -> Vec<u8> {
        let mut out = BytesMut::new();
        put_frame(&mut out, METHOD, 1, |out| {
            out.put_slice(&[0, 60, 0, 80]);
            out.put_u64(tag);
            out.put_u8(1);
        });
        out.to_vec()
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let bytes: Vec<u8> = (0..3).flat_map(ack).collect();
        for cut in 0..bytes.len() {
            let mut received = BytesMut::new();
            let mut tags = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                received.extend_from_slice(part);
                while let Some(frame) = next_frame(&mut received, FRAME_MAX).unwrap() {
                    let Content::Method(Method::Ack { tag, multiple: true }) = frame.content else {
                        panic!("{frame:?}")
                    };
                    tags.push(tag);
                }
            }
            assert_eq!(tags, [0, 1, 2], "cut at {cut}");
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_collected() {
        let mut received = BytesMut::from(&[METHOD, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF][..]);
        assert_eq!(next_frame(&mut received, FRAME_MAX), Err(Malformed("a frame is longer than agreed")));
    }

    #[test]
    fn a_server_of_another_protocol_version_is_recognized() {
        let mut received = BytesMut::from(&b"AMQP\x00\x01\x00\x00"[..]);
        assert!(next_frame(&mut received, FRAME_MAX).is_err());
    }

    #[test]
    fn the_message_id_is_found_behind_every_other_property() {
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let mut payload = BytesMut::new();
        payload.put_slice(&[0, 60, 0, 0]);
        payload.put_u64(12);
        payload.put_u16(0xFF80);
        payload.put_slice(b"\x04text\x04gzip");
        payload.put_slice(b"\0\0\0\x04\x01at\x01");
        payload.put_slice(b"\x02\x09\x01c\x01r\x0260");
        payload.put_slice(b"\x24");
        payload.put_slice(id.to_string().as_bytes());
        assert_eq!(content_header(&payload), Ok(Content::Header { body: 12, message_id: Some(id) }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut received = BytesMut::from(bytes.as_slice());
            while let Ok(Some(_)) = next_frame(&mut received, FRAME_MAX) {}
        }

        #[test]
        fn no_payload_makes_it_panic(kind in 1u8..9, class in 0u8..100, method in 0u8..130, rest: Vec<u8>) {
            let mut received = BytesMut::new();
            put_frame(&mut received, kind, 1, |out| {
                out.put_slice(&[0, class, 0, method]);
                out.put_slice(&rest);
            });
            let _ = next_frame(&mut received, FRAME_MAX);
        }
    }
}
