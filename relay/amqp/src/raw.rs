//! The protocol below the publisher, for measuring a broker and for tests: an open channel, the frames of one message,
//! and what the broker says.
//!
//! Nothing here recovers, limits what is in flight or sends heartbeats (the URL's `heartbeat=0` switches them off).
//! Whoever wants to publish takes [`Publisher`](crate::Publisher).

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use uuid::Uuid;

use crate::{
    AmqpError, Outgoing, PublishConfig,
    connect::handshake::shake_hands,
    protocol::{
        frame::{Content, next_frame},
        method::{BASIC, CHANNEL, Method},
        output::Output,
        wire::{METHOD, put_frame, put_short_string},
    },
    publish::{encoder::Encoder, opening::Check},
};

/// The longest frame, in bytes: RabbitMQ's default.
const FRAME_MAX_BYTES: usize = 131_072;

/// What a frame from the broker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The broker has taken a message.
    Ack {
        /// Its place among the channel's messages, from 1.
        tag: u64,
        /// Whether it has taken all messages before that one, too.
        multiple: bool,
    },
    /// A message is delivered; its header and its body follow.
    Delivery,
    /// The header of that message.
    Header {
        /// Its `message_id`, if that is a UUID.
        id: Option<Uuid>,
        /// Size of its body, in bytes.
        body: u64,
    },
    /// So many bytes of that body.
    Body(u64),
    /// A heartbeat.
    Heartbeat,
    /// Any other method, as text for people.
    Other(String),
}

/// Opens a channel in confirm mode over a connected socket, as the publisher does: with the login of the
/// configuration's URL, and with its exchange. Returns the socket, and the bytes that came after the broker's last
/// answer.
///
/// # Errors
///
/// As for [`Publisher::connect`](crate::Publisher::connect).
pub async fn open<S>(config: &PublishConfig, socket: S) -> Result<(S, BytesMut), AmqpError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (opened, _) = shake_hands(&config.client(), socket, async |handshake| {
        handshake.open_channel(config, Check::Within(None)).await
    })
    .await?;
    Ok((opened.socket, opened.received))
}

/// The frames of one message on the open channel: persistent, mandatory, as the publisher writes them. `None`: AMQP has
/// no such message.
pub fn message(exchange: &str, app_id: &str, message: &impl Outgoing) -> Option<Bytes> {
    let mut encoder = Encoder::new(CHANNEL, exchange.to_owned(), app_id.to_owned(), FRAME_MAX_BYTES);
    let mut out = Output::default();
    encoder.begin(message, out.buffer()).ok()?;
    while encoder.is_inside_message() {
        encoder.put_body(&mut out);
    }
    Some(out.copy_to_bytes(out.len()))
}

/// The method `basic.consume` on the open channel, for a consumer that acknowledges nothing (`no_ack`).
pub fn consume(queue: &str) -> Bytes {
    /// Bits of the flags: no-local, no-ack, exclusive, no-wait.
    const NO_ACK: u8 = 0b10;
    let mut out = BytesMut::new();
    put_frame(&mut out, METHOD, CHANNEL, |out| {
        out.put_u16(BASIC);
        out.put_u16(20);
        out.put_u16(0); // reserved
        put_short_string(out, queue.as_bytes());
        put_short_string(out, b""); // the broker names the consumer
        out.put_u8(NO_ACK);
        out.put_u32(0); // no arguments
    });
    out.freeze()
}

/// Takes the first whole frame from what was received; `None` when more must be received for that.
///
/// # Errors
///
/// The bytes are not AMQP.
pub fn next(received: &mut BytesMut) -> Result<Option<Incoming>, AmqpError> {
    let frame =
        next_frame(received, FRAME_MAX_BYTES).map_err(|malformed| AmqpError::Protocol(malformed.to_string()))?;
    Ok(frame.map(|frame| match frame.content {
        Content::Method(Method::Ack { tag, multiple }) => Incoming::Ack { tag, multiple },
        Content::Method(Method::Other { class: BASIC, method: 60 }) => Incoming::Delivery,
        Content::Method(method) => Incoming::Other(format!("{method:?}")),
        Content::Header { body, message_id } => Incoming::Header { id: message_id, body },
        Content::Body(bytes) => Incoming::Body(bytes),
        Content::Heartbeat => Incoming::Heartbeat,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::message::example;

    #[test]
    fn a_written_message_is_read_as_its_frames() {
        let written = message("exchange", "app", &example(7)).unwrap();
        let mut received = BytesMut::from(&*written);
        let mut frames = Vec::new();
        while let Some(frame) = next(&mut received).unwrap() {
            frames.push(frame);
        }
        let [Incoming::Other(publish), header, body] = &frames[..] else { panic!("{frames:?}") };
        assert!(publish.contains("40"), "{publish}");
        assert_eq!(*header, Incoming::Header { id: Some(Uuid::from_u128(7)), body: 2 });
        assert_eq!((body, received.is_empty()), (&Incoming::Body(2), true));
    }
}
