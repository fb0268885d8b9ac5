//! A message as AMQP frames: basic.publish, content header, bodies.
//!
//! Code that is generic over the message is compiled in the caller's crate. The small functions that it calls are
//! marked `#[inline]`: without that, writing a message with its headers takes a tenth longer (300 ns instead of 268).

#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    headers::Headers,
    message::{Message, Outgoing},
};
use crate::protocol::{
    method::{BASIC, publish},
    output::{Output, UNCOPIED_FROM},
    wire::{BODY, FRAME_END, FRAME_OVERHEAD, HEADER, SHORT_STRING_MAX, put_frame, put_short_string, put_sized},
};

/// AMQP's reply code for content that is larger than the peer takes.
const CONTENT_TOO_LARGE: u16 = 311;
/// AMQP's reply code for a field with an illegal value.
const SYNTAX_ERROR: u16 = 502;

/// Why a message cannot be written in AMQP.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unpublishable {
    /// The reply code that the broker would give.
    pub(crate) code: u16,
    /// What is wrong.
    pub(crate) text: String,
}

/// Writes one message after the other. A body is written a frame at a time, so that the output stays small even if the
/// body is large.
pub(crate) struct Encoder {
    channel: u16,
    /// Exchange of messages that name none.
    exchange: String,
    app_id: String,
    /// Longest frame that the broker takes, in bytes.
    frame_max: usize,
    /// The rest of the current message's body.
    body: Bytes,
}

impl Encoder {
    pub(crate) fn new(channel: u16, exchange: String, app_id: String, frame_max: usize) -> Self {
        Self { channel, exchange, app_id, frame_max, body: Bytes::new() }
    }

    /// The channel on which the encoder writes.
    pub(crate) fn channel(&self) -> u16 {
        self.channel
    }

    /// Whether a body is unfinished: nothing else may be written on the channel.
    pub(crate) fn is_inside_message(&self) -> bool {
        !self.body.is_empty()
    }

    /// Begins a message. On an error nothing is written.
    pub(crate) fn begin(&mut self, outgoing: &impl Outgoing, out: &mut BytesMut) -> Result<(), Unpublishable> {
        debug_assert!(!self.is_inside_message(), "one message at a time");
        let message = outgoing.message().map_err(|reason| illegal(reason.to_owned()))?;
        let start = out.len();
        let written = self.put_method_and_header(outgoing, &message, out);
        match written {
            Ok(()) => self.body = message.body.clone(),
            Err(_) => out.truncate(start),
        }
        written
    }

    /// Writes the next frame of the body.
    pub(crate) fn put_body(&mut self, out: &mut Output) {
        let part = self.body.split_to(self.body.len().min(self.frame_max - FRAME_OVERHEAD));
        if part.len() < UNCOPIED_FROM {
            put_frame(out.buffer(), BODY, self.channel, |out| out.extend_from_slice(&part));
            return;
        }
        out.buffer().put_u8(BODY);
        out.buffer().put_u16(self.channel);
        out.buffer().put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX)); // a frame is limited to far less
        out.push(part);
        out.buffer().put_u8(FRAME_END);
    }

    fn put_method_and_header(
        &self,
        outgoing: &impl Outgoing,
        message: &Message<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Unpublishable> {
        let exchange = message.exchange.unwrap_or(self.exchange.as_bytes());
        check("exchange", exchange)?;
        check("routing_key", message.routing_key)?;
        publish(out, self.channel, exchange, message.routing_key);
        let start = out.len();
        let mut written = Ok(());
        put_frame(out, HEADER, self.channel, |out| written = self.put_header(outgoing, message, out));
        written?;
        let length = out.len() - start;
        if length > self.frame_max {
            let text = format!("headers take {length} bytes, the broker's limit (frame_max) is {}", self.frame_max);
            return Err(Unpublishable { code: CONTENT_TOO_LARGE, text });
        }
        Ok(())
    }

    /// Writes the content header: class, weight, size of the body, flags, and the properties in the order of their
    /// flags.
    fn put_header(
        &self,
        outgoing: &impl Outgoing,
        message: &Message<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Unpublishable> {
        const HEADERS: u16 = 1 << 13;
        const DELIVERY_MODE: u16 = 1 << 12;
        const PRIORITY: u16 = 1 << 11;
        const MESSAGE_ID: u16 = 1 << 7;
        const TIMESTAMP: u16 = 1 << 6;
        /// Delivery modes: a restart of the broker loses the message, or keeps it on a durable queue.
        const TRANSIENT: u8 = 1;
        const PERSISTENT: u8 = 2;

        let properties = &message.properties;
        out.put_u16(BASIC);
        out.put_u16(0); // weight: unused
        out.put_u64(message.body.len() as u64);
        let flags_at = out.len();
        out.put_u16(0);
        let mut flags = HEADERS | DELIVERY_MODE | MESSAGE_ID;
        put_optional(out, &mut flags, 1 << 15, "content_type", properties.content_type)?;
        put_optional(out, &mut flags, 1 << 14, "content_encoding", properties.content_encoding)?;
        put_sized(out, |out| outgoing.put_headers(&mut Headers::new(out)))
            .map_err(|error| illegal(format!("headers: {error}")))?;
        out.put_u8(if properties.transient { TRANSIENT } else { PERSISTENT });
        if let Some(priority) = properties.priority {
            flags |= PRIORITY;
            out.put_u8(priority);
        }
        put_optional(out, &mut flags, 1 << 10, "correlation_id", properties.correlation_id)?;
        put_optional(out, &mut flags, 1 << 9, "reply_to", properties.reply_to)?;
        put_optional(out, &mut flags, 1 << 8, "expiration", properties.expiration)?;
        let mut id = [0; uuid::fmt::Hyphenated::LENGTH];
        put_short_string(out, outgoing.id().hyphenated().encode_lower(&mut id).as_bytes());
        if let Some(timestamp) = properties.timestamp {
            flags |= TIMESTAMP;
            out.put_u64(timestamp);
        }
        put_optional(out, &mut flags, 1 << 5, "type", properties.kind)?;
        put_optional(out, &mut flags, 1 << 4, "user_id", properties.user_id)?;
        let app_id = Some(self.app_id.as_bytes()).filter(|app_id| !app_id.is_empty());
        put_optional(out, &mut flags, 1 << 3, "app_id", app_id)?;
        if let Some(place) = out.get_mut(flags_at..flags_at + 2) {
            place.copy_from_slice(&flags.to_be_bytes());
        }
        Ok(())
    }
}

fn illegal(text: String) -> Unpublishable {
    Unpublishable { code: SYNTAX_ERROR, text }
}

#[inline]
fn check(name: &str, text: &[u8]) -> Result<(), Unpublishable> {
    if text.len() <= SHORT_STRING_MAX {
        return Ok(());
    }
    Err(illegal(format!("{name} has {} bytes, AMQP allows {SHORT_STRING_MAX}", text.len())))
}

/// Writes a property, if the message has it, and sets its flag.
#[inline]
fn put_optional(
    out: &mut BytesMut,
    flags: &mut u16,
    flag: u16,
    name: &str,
    text: Option<&[u8]>,
) -> Result<(), Unpublishable> {
    let Some(text) = text else { return Ok(()) };
    check(name, text)?;
    put_short_string(out, text);
    *flags |= flag;
    Ok(())
}
