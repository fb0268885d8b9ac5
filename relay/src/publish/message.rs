//! An event as AMQP frames: basic.publish, content header, bodies.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{
    headers::put_headers,
    method::{BASIC, CHANNEL, publish},
    wire::{BODY, FRAME_OVERHEAD, HEADER, SHORT_STRING_MAX, put_frame, put_short_string, put_sized},
};
use crate::event::{Event, Text};

/// AMQP's reply code for content that is larger than the peer takes.
const CONTENT_TOO_LARGE: u16 = 311;
/// AMQP's reply code for a field with an illegal value.
const SYNTAX_ERROR: u16 = 502;

/// The event cannot be written as an AMQP message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unpublishable {
    /// The reply code that the broker would give.
    pub(super) code: u16,
    /// What is wrong.
    pub(super) text: String,
}

/// Writes one message after the other. A body is written a frame at a time, so that the output stays small however
/// large the body is.
pub(super) struct Encoder {
    /// Exchange of events that name none.
    exchange: String,
    app_id: String,
    /// Longest frame that the broker takes, in bytes.
    frame_max: usize,
    /// What is still to be written of the current message's body.
    body: Bytes,
}

impl Encoder {
    pub(super) fn new(exchange: String, app_id: String, frame_max: usize) -> Self {
        Self { exchange, app_id, frame_max, body: Bytes::new() }
    }

    /// The exchange that an event goes to.
    pub(super) fn exchange_of<'a>(&'a self, event: &'a Event) -> &'a str {
        event.exchange.as_ref().map_or(&self.exchange, Text::as_str)
    }

    /// Whether a body is unfinished: nothing else may be written on the channel.
    pub(super) fn is_inside_message(&self) -> bool {
        !self.body.is_empty()
    }

    /// Forgets an unfinished body: its channel is closed.
    pub(super) fn abandon(&mut self) {
        self.body = Bytes::new();
    }

    /// Begins a message. On an error nothing is written.
    pub(super) fn begin(&mut self, event: &Event, out: &mut BytesMut) -> Result<(), Unpublishable> {
        debug_assert!(!self.is_inside_message(), "one message at a time");
        let body = event.body.as_ref();
        let body = body.map_err(|reason| Unpublishable { code: SYNTAX_ERROR, text: reason.to_string() })?;
        let start = out.len();
        let written = self.put_method_and_header(event, body.len(), out);
        match written {
            Ok(()) => self.body = body.clone(),
            Err(_) => out.truncate(start),
        }
        written
    }

    /// Writes the next frame of the body.
    pub(super) fn put_body(&mut self, out: &mut BytesMut) {
        let length = self.body.len().min(self.frame_max - FRAME_OVERHEAD);
        put_frame(out, BODY, CHANNEL, |out| out.extend_from_slice(self.body.get(..length).unwrap_or_default()));
        self.body.advance(length);
    }

    fn put_method_and_header(&self, event: &Event, body_bytes: usize, out: &mut BytesMut) -> Result<(), Unpublishable> {
        let exchange = self.exchange_of(event).as_bytes();
        check("exchange", exchange)?;
        check("topic", event.topic.as_bytes())?;
        publish(out, exchange, event.topic.as_bytes());
        let start = out.len();
        let mut written = Ok(());
        put_frame(out, HEADER, CHANNEL, |out| written = self.put_header(event, body_bytes, out));
        written?;
        let length = out.len() - start;
        if length > self.frame_max {
            let text = format!("headers take {length} bytes, the broker's limit (frame_max) is {}", self.frame_max);
            return Err(Unpublishable { code: CONTENT_TOO_LARGE, text });
        }
        Ok(())
    }

    /// Content header: class, weight, size of the body, flags for the properties that follow in this order.
    fn put_header(&self, event: &Event, body_bytes: usize, out: &mut BytesMut) -> Result<(), Unpublishable> {
        const CONTENT_TYPE: u16 = 1 << 15;
        const HEADERS: u16 = 1 << 13;
        const DELIVERY_MODE: u16 = 1 << 12;
        const CORRELATION_ID: u16 = 1 << 10;
        const MESSAGE_ID: u16 = 1 << 7;
        const TIMESTAMP: u16 = 1 << 6;
        const TYPE: u16 = 1 << 5;
        const APP_ID: u16 = 1 << 3;
        /// Delivery mode: survives a restart of the broker, on a durable queue.
        const PERSISTENT: u8 = 2;

        let mut flags = CONTENT_TYPE | HEADERS | DELIVERY_MODE | MESSAGE_ID | TIMESTAMP | APP_ID;
        if event.correlation_id.is_some() {
            flags |= CORRELATION_ID;
        }
        if event.event_type.is_some() {
            flags |= TYPE;
        }
        out.put_u16(BASIC);
        out.put_u16(0); // weight: unused
        out.put_u64(body_bytes as u64);
        out.put_u16(flags);
        put_checked(out, "content_type", event.content_type.as_bytes())?;
        put_sized(out, |out| put_headers(event, out))
            .map_err(|error| Unpublishable { code: SYNTAX_ERROR, text: format!("headers: {error}") })?;
        out.put_u8(PERSISTENT);
        if let Some(correlation_id) = &event.correlation_id {
            put_checked(out, "correlation_id", correlation_id.as_bytes())?;
        }
        let mut id = [0; uuid::fmt::Hyphenated::LENGTH];
        put_short_string(out, event.id.hyphenated().encode_lower(&mut id).as_bytes());
        out.put_u64(u64::try_from(event.created_at_us.div_euclid(1_000_000)).unwrap_or(0));
        if let Some(event_type) = &event.event_type {
            put_checked(out, "event_type", event_type.as_bytes())?;
        }
        put_short_string(out, self.app_id.as_bytes());
        Ok(())
    }
}

fn check(name: &str, text: &[u8]) -> Result<(), Unpublishable> {
    if text.len() <= SHORT_STRING_MAX {
        return Ok(());
    }
    let text = format!("{name} has {} bytes, AMQP allows {SHORT_STRING_MAX}", text.len());
    Err(Unpublishable { code: SYNTAX_ERROR, text })
}

fn put_checked(out: &mut BytesMut, name: &str, text: &[u8]) -> Result<(), Unpublishable> {
    check(name, text)?;
    put_short_string(out, text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::publish::{
        example::event,
        frame::{Frame, next_frame},
    };

    fn encoder() -> Encoder {
        Encoder::new("outbox".to_owned(), "app".to_owned(), 4096)
    }

    fn text(length: usize) -> Text {
        Text::new("x".repeat(length).into()).unwrap()
    }

    #[test]
    fn a_body_is_cut_into_frames_that_the_broker_takes() {
        for size in [0, 1, 4088, 4089, 3 * 4088, 10_000] {
            let mut event = event(1);
            event.body = Ok(vec![7; size].into());
            let (mut encoder, mut out) = (encoder(), BytesMut::new());
            encoder.begin(&event, &mut out).unwrap();
            while encoder.is_inside_message() {
                encoder.put_body(&mut out);
            }
            let mut sizes = 0;
            while let Some(frame) = next_frame(&mut out, 4096).unwrap() {
                match frame {
                    Frame::Method(_) => {}
                    Frame::Header { body, message_id } => {
                        assert_eq!((body, message_id), (size as u64, Some(Uuid::from_u128(1))));
                    }
                    Frame::Body(length) => sizes += length,
                    Frame::Heartbeat => panic!("no heartbeat was written"),
                }
            }
            assert_eq!(sizes, size as u64);
            assert!(out.is_empty());
        }
    }

    #[test]
    fn an_event_that_does_not_fit_is_refused_and_leaves_no_trace() {
        let spoil: [fn(&mut Event); 9] = [
            |event| event.body = Err("no".into()),
            |event| event.topic = text(256),
            |event| event.exchange = Some(text(256)),
            |event| event.content_type = text(256),
            |event| event.correlation_id = Some(text(256)),
            |event| event.event_type = Some(text(256)),
            |event| event.headers = Some("[]".into()),
            |event| event.headers = Some(format!(r#"{{"a":"{}"}}"#, "x".repeat(4096)).into()),
            |event| event.aggregate_id = Some(text(5000)),
        ];
        for (number, spoil) in spoil.into_iter().enumerate() {
            let mut event = event(1);
            spoil(&mut event);
            let (mut encoder, mut out) = (encoder(), BytesMut::from("before"));
            let refused = encoder.begin(&event, &mut out).unwrap_err();
            assert_eq!(refused.code, if number < 7 { SYNTAX_ERROR } else { CONTENT_TOO_LARGE }, "{refused:?}");
            assert_eq!(out, "before");
            assert!(!encoder.is_inside_message());
        }
    }
}
