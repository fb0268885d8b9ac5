//! One message as a consumer received it.

use std::time::{Duration, SystemTime};

use lapin::{BasicProperties, types::AMQPValue};
use uuid::Uuid;

/// One delivery, in the order of arrival. The same message may arrive twice; its id stays.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// `message_id`: the event's id. Nil if there was none, or it was no uuid.
    pub id: Uuid,
    /// The exchange it was published to.
    pub exchange: String,
    /// Routing key: the event's topic.
    pub routing_key: String,
    /// All of its AMQP properties.
    pub properties: BasicProperties,
    /// The payload; empty when the consumer was told [`without_bodies`](crate::ConsumerBuilder::without_bodies).
    pub body: Vec<u8>,
    /// The broker has handed it to a consumer before.
    pub redelivered: bool,
    /// When it arrived.
    pub received: SystemTime,
}

impl Delivery {
    pub(crate) fn new(delivery: lapin::message::Delivery, keep_body: bool) -> Self {
        let received = SystemTime::now();
        let id = delivery.properties.message_id().as_ref().and_then(|id| Uuid::parse_str(id.as_str()).ok());
        Self {
            id: id.unwrap_or_default(),
            exchange: delivery.exchange.to_string(),
            routing_key: delivery.routing_key.to_string(),
            properties: delivery.properties,
            body: if keep_body { delivery.data } else { Vec::new() },
            redelivered: delivery.redelivered,
            received,
        }
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&AMQPValue> {
        self.properties.headers().as_ref()?.inner().get(name)
    }

    /// A header that is text; `None` if there is no such header or it is something else.
    pub fn text_header(&self, name: &str) -> Option<String> {
        match self.header(name)? {
            AMQPValue::LongString(text) => Some(text.to_string()),
            _ => None,
        }
    }

    /// `x-outbox-seq`: the row's place in the table.
    pub fn seq(&self) -> Option<i64> {
        self.header("x-outbox-seq")?.as_long_long_int()
    }

    /// `x-outbox-replay`: how often the event was replayed; `None` on its first delivery.
    pub fn replay(&self) -> Option<i64> {
        self.header("x-outbox-replay")?.as_long_long_int()
    }

    /// The ordering key, `(aggregate_type, aggregate_id)`, if it has one.
    pub fn key(&self) -> Option<(String, String)> {
        Some((self.text_header("aggregate_type")?, self.text_header("aggregate_id")?))
    }

    /// The payload as JSON.
    ///
    /// # Panics
    /// When it is not.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("the body of {} is not JSON: {e}", self.id))
    }

    /// Time from `start` to its arrival; zero if it arrived before.
    pub fn since(&self, start: SystemTime) -> Duration {
        self.received.duration_since(start).unwrap_or_default()
    }
}
