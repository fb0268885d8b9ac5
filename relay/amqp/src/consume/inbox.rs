//! From frames to whole deliveries. No I/O, no clock.

use std::collections::VecDeque;

use super::delivery::{ContentHeader, DeliveredProperties, Delivery};
use crate::{
    connect::{error::AmqpError, handshake::unexpected},
    protocol::{
        frame::{Frame, UNKNOWN_TYPE},
        method::{self, CHANNEL, Method},
        output::Output,
        wire::{BODY, HEADER, HEARTBEAT, METHOD, Malformed},
    },
};

/// The content of a frame, as a consumer reads it.
#[derive(Debug)]
pub(crate) enum Incoming {
    Method(Method),
    Header(ContentHeader),
    Body(Vec<u8>),
    Heartbeat,
}

impl Incoming {
    pub(crate) fn read(kind: u8, payload: &[u8]) -> Result<Self, Malformed> {
        Ok(match kind {
            METHOD => Self::Method(Method::read(payload)?),
            HEADER => Self::Header(ContentHeader::read(payload)?),
            BODY => Self::Body(payload.to_vec()),
            HEARTBEAT => Self::Heartbeat,
            _ => return Err(UNKNOWN_TYPE),
        })
    }
}

/// Deliveries that have come, and the delivery that is coming.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Whole deliveries; no more than the prefetch limit.
    ready: VecDeque<Delivery>,
    coming: Coming,
    /// Whether the broker has agreed to end the connection.
    pub(crate) closed: bool,
}

/// How much of the next delivery has come.
#[derive(Debug, Default)]
enum Coming {
    #[default]
    Nothing,
    /// Everything but the content header and the body.
    Announced(Delivery),
    /// Everything but this many bytes of the body.
    Body(Delivery, u64),
}

impl Inbox {
    /// The oldest whole delivery.
    pub(crate) fn pop(&mut self) -> Option<Delivery> {
        self.ready.pop_front()
    }

    /// Takes a frame from the broker, and writes the method that the broker waits for, if any. An error ends the
    /// connection.
    pub(crate) fn receive(&mut self, frame: Frame<Incoming>, out: &mut Output) -> Result<(), AmqpError> {
        if frame.channel > CHANNEL {
            return Err(AmqpError::Protocol(format!("a frame of channel {} was not expected", frame.channel)));
        }
        match (frame.content, std::mem::take(&mut self.coming)) {
            (Incoming::Heartbeat, coming) => self.coming = coming,
            (Incoming::Method(Method::Deliver { tag, redelivered, exchange, routing_key }), Coming::Nothing) => {
                let (properties, body) = (DeliveredProperties::default(), Vec::new());
                let delivery = Delivery { tag, exchange, routing_key, redelivered, properties, body };
                self.coming = Coming::Announced(delivery);
            }
            (Incoming::Method(method), coming) => {
                self.coming = coming;
                self.receive_method(method, out)?;
            }
            (Incoming::Header(header), Coming::Announced(delivery)) => {
                self.receive_body(Delivery { properties: header.properties, ..delivery }, header.body);
            }
            (Incoming::Body(bytes), Coming::Body(mut delivery, missing)) => {
                let Some(missing) = missing.checked_sub(bytes.len() as u64) else {
                    return Err(AmqpError::Protocol("a body is longer than announced".to_owned()));
                };
                delivery.body.extend_from_slice(&bytes);
                self.receive_body(delivery, missing);
            }
            (Incoming::Header(_) | Incoming::Body(_), _) => {
                return Err(AmqpError::Protocol("content was not expected".to_owned()));
            }
        }
        Ok(())
    }

    fn receive_body(&mut self, delivery: Delivery, missing: u64) {
        if missing > 0 {
            self.coming = Coming::Body(delivery, missing);
        } else {
            self.ready.push_back(delivery);
        }
    }

    fn receive_method(&mut self, method: Method, out: &mut Output) -> Result<(), AmqpError> {
        match method {
            Method::Blocked { .. } | Method::Unblocked => {} // concerns publishers
            Method::Flow { active } => method::flow_ok(out.buffer(), CHANNEL, active),
            Method::Cancel => return Err(AmqpError::Cancelled),
            Method::ConnectionCloseOk => self.closed = true,
            other => {
                match &other {
                    Method::ChannelClose { .. } => method::channel_close_ok(out.buffer(), CHANNEL),
                    Method::ConnectionClose { .. } => method::connection_close_ok(out.buffer()),
                    _ => {}
                }
                return Err(unexpected(other));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(inbox: &mut Inbox, content: Incoming) -> Result<(), AmqpError> {
        inbox.receive(Frame { channel: CHANNEL, content }, &mut Output::default())
    }

    fn deliver(tag: u64) -> Incoming {
        let (exchange, routing_key) = ("outbox".to_owned(), "orders.paid".to_owned());
        Incoming::Method(Method::Deliver { tag, redelivered: false, exchange, routing_key })
    }

    fn header(body: u64) -> Incoming {
        Incoming::Header(ContentHeader { body, properties: DeliveredProperties::default() })
    }

    #[test]
    fn a_delivery_is_ready_once_its_whole_body_has_come() {
        let mut inbox = Inbox::default();
        for content in [deliver(1), header(0), deliver(2), header(5), Incoming::Body(b"abc".to_vec())] {
            receive(&mut inbox, content).unwrap();
        }
        assert_eq!(inbox.pop().map(|delivery| (delivery.tag, delivery.body)), Some((1, Vec::new())));
        assert_eq!(inbox.pop(), None);
        receive(&mut inbox, Incoming::Heartbeat).unwrap();
        receive(&mut inbox, Incoming::Body(b"de".to_vec())).unwrap();
        assert_eq!(inbox.pop().map(|delivery| (delivery.tag, delivery.body)), Some((2, b"abcde".to_vec())));
    }

    #[test]
    fn frames_out_of_turn_are_errors() {
        for frames in [
            vec![header(1)],
            vec![Incoming::Body(vec![1])],
            vec![deliver(1), Incoming::Body(vec![1])],
            vec![deliver(1), deliver(2)],
            vec![deliver(1), header(1), Incoming::Body(vec![1, 2])],
        ] {
            let (mut inbox, count) = (Inbox::default(), frames.len());
            let results: Vec<bool> = frames.into_iter().map(|frame| receive(&mut inbox, frame).is_ok()).collect();
            assert_eq!(results.iter().filter(|ok| **ok).count(), count - 1, "{results:?}");
            assert_eq!((results.last(), inbox.pop()), (Some(&false), None));
        }
    }

    #[test]
    fn the_end_of_queue_channel_or_connection_is_an_error_and_the_broker_gets_its_answer() {
        let close = |code| (code, "words".to_owned());
        let (code, text) = close(404);
        for (method, answers) in [
            (Method::Cancel, false),
            (Method::ChannelClose { code, text: text.clone() }, true),
            (Method::ConnectionClose { code: 320, text }, true),
        ] {
            let (mut inbox, mut out) = (Inbox::default(), Output::default());
            let frame = Frame { channel: CHANNEL, content: Incoming::Method(method.clone()) };
            assert!(inbox.receive(frame, &mut out).is_err(), "{method:?}");
            assert_eq!(!out.is_empty(), answers, "{method:?}");
        }
    }
}
