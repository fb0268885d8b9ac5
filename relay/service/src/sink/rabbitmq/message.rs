//! An event as an AMQP message: the mapping that docs/message.md promises.

use std::sync::Arc;

use amqp_publisher::{Headers, InvalidHeaders, Message, Outgoing, Properties};
use uuid::Uuid;

use outbox_core::{Destination, Event, Text};

use super::reserved;

/// An event on its way to RabbitMQ.
pub struct Outbound {
    pub(super) event: Arc<Event>,
    /// The message's `traceparent`; `None`: the message has the event's own.
    pub(super) traceparent: Option<Box<str>>,
    /// Whether the headers contain the ordering key.
    pub(super) key_headers: bool,
}

impl Outbound {
    /// A message with all of the event's own headers, those of a trace included.
    pub fn new(event: Arc<Event>) -> Self {
        Self { event, traceparent: None, key_headers: true }
    }

    /// Sets the `traceparent` of a span that the message's consumers continue, if there is one.
    #[must_use]
    pub(super) fn continuing(self, traceparent: Option<Box<str>>) -> Self {
        Self { traceparent, ..self }
    }

    /// Sets whether the headers contain the ordering key; by default they do.
    #[must_use]
    pub fn telling_key(self, key_headers: bool) -> Self {
        Self { key_headers, ..self }
    }
}

impl Outgoing for Outbound {
    fn id(&self) -> Uuid {
        self.event.id
    }

    fn message(&self) -> Result<Message<'_>, &str> {
        let event = &*self.event;
        let body = event.body.as_ref().map_err(|reason| &**reason)?;
        let properties = Properties {
            content_type: Some(event.content_type.as_bytes()),
            content_encoding: event.headers.as_ref().and_then(|json| reserved::content_encoding(json)),
            correlation_id: event
                .correlation_id
                .as_ref()
                .filter(|id| !reserved::is_broken_urn(id.as_str()))
                .map(Text::as_bytes),
            timestamp: Some(u64::try_from(event.created_at_us.div_euclid(1_000_000)).unwrap_or(0)),
            kind: event.event_type.as_ref().map(Text::as_bytes).filter(|kind| *kind != reserved::AMQP_1_0),
            ..Properties::default()
        };
        let Destination { exchange, topic } = &event.destination;
        Ok(Message { exchange: exchange.as_ref().map(Text::as_bytes), routing_key: topic.as_bytes(), properties, body })
    }

    /// Writes the relay's headers and the event's own; a header of the event that the relay sets itself is replaced.
    ///
    /// An event's header is left out if it pretends that the event is a replay, if it has become an AMQP property, or
    /// if it would harm the broker ([`reserved`]).
    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), InvalidHeaders> {
        const SEQ: &str = "x-outbox-seq";
        const REPLAY: &str = "x-outbox-replay";
        const AGGREGATE_TYPE: &str = "aggregate_type";
        const AGGREGATE_ID: &str = "aggregate_id";
        const TRACEPARENT: &str = "traceparent";
        let event = &*self.event;
        headers.integer(SEQ, event.seq)?;
        if event.replays > 0 {
            headers.integer(REPLAY, event.replays.into())?;
        }
        let [key_type, key_id] =
            [&event.aggregate_type, &event.aggregate_id].map(|text| text.as_ref().filter(|_| self.key_headers));
        for (name, text) in [(AGGREGATE_TYPE, key_type), (AGGREGATE_ID, key_id)] {
            if let Some(text) = text {
                headers.text(name, text.as_bytes())?;
            }
        }
        if let Some(text) = &self.traceparent {
            headers.text(TRACEPARENT, text.as_bytes())?;
        }
        let Some(json) = &event.headers else { return Ok(()) };
        let replaced = |name: &str| match name {
            SEQ | REPLAY => true,
            AGGREGATE_TYPE => key_type.is_some(),
            AGGREGATE_ID => key_id.is_some(),
            reserved::CONTENT_ENCODING => reserved::content_encoding(json).is_some(),
            TRACEPARENT => self.traceparent.is_some(),
            _ => false,
        };
        reserved::put(headers, json, replaced)
    }
}
