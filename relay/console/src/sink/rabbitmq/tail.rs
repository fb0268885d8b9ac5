//! Messages as they reach the exchange, through a queue of this command's own.
//!
//! The queue is exclusive, is deleted with its connection, and drops its oldest messages while this program or its
//! terminal is slow, so that it slows nobody down. RabbitMQ routes events to it as to any queue, so an event without
//! another binding counts as routed while the command runs, and the command asks for confirmation.

use std::time::Duration;

use amqp_publisher::{AmqpError, ConsumeConfig, Consumer};
use outbox_service::{
    Config,
    error::{Kind, RunError},
    sink::rabbitmq::{self, end_of_start},
};
use tokio::time::timeout;

use super::message::Message;
use crate::{format::exact, sink};

/// Longest short string of AMQP, in bytes.
const SHORT_STRING_MAX: usize = 255;

/// Messages that the broker sends ahead: enough to keep a terminal busy from one round trip to the next.
const PREFETCH: u16 = 200;

/// Most messages and bytes in the queue, so that a slow terminal costs the broker no more.
const QUEUE_MESSAGES: u32 = 10_000;
const QUEUE_BYTES: u32 = 64 << 20;

pub(super) const QUESTION: &str = "While this runs, an event that no other queue is bound for counts as SENT, \
                        because this command's queue takes it. Go on?";

/// The queue that takes what reaches the exchange.
pub struct Tail {
    consumer: Consumer,
    exchange: String,
    payload: bool,
    /// Delivery tag of the last message.
    tag: u64,
}

impl Tail {
    /// Connects and opens the queue, within `limit`.
    pub(super) async fn open(
        config: &Config,
        bindings: &[String],
        payload: bool,
        limit: Duration,
    ) -> Result<Self, RunError> {
        let missing = || RunError::new(Kind::Usage, "AMQP_URL is not set");
        let rabbitmq = rabbitmq::settings(config).ok_or_else(missing)?;
        let consumer = consume(config, rabbitmq, bindings, limit).await?;
        Ok(Self { consumer, exchange: rabbitmq.exchange.clone(), payload, tag: 0 })
    }
}

impl sink::Tail for Tail {
    type Message = Message;

    fn source(&self) -> String {
        format!("the exchange {:?}", self.exchange)
    }

    async fn next(&mut self) -> Result<Message, RunError> {
        let delivery = self.consumer.next().await.map_err(lost)?;
        self.tag = delivery.tag;
        Ok(Message::read(delivery, self.payload))
    }

    async fn keep_alive(&mut self) -> RunError {
        lost(self.consumer.keep_alive().await)
    }

    fn printed(&mut self) {
        self.consumer.ack(self.tag);
    }

    async fn close(self) {
        self.consumer.close().await;
    }
}

async fn consume(
    config: &Config,
    rabbitmq: &rabbitmq::Config,
    bindings: &[String],
    limit: Duration,
) -> Result<Consumer, RunError> {
    if let Some(long) = bindings.iter().map(String::len).find(|bytes| *bytes > SHORT_STRING_MAX) {
        let what = format!("a binding key has at most {SHORT_STRING_MAX} bytes, and this one {long}");
        return Err(RunError::new(Kind::Usage, what));
    }
    let address = &rabbitmq.url;
    let url = address.now()?;
    let consume = ConsumeConfig {
        url: url.clone(),
        exchange: rabbitmq.exchange.clone(),
        bindings: bindings.to_owned(),
        queue: format!("outbox-tail.{:016x}", fastrand::u64(..)),
        queue_messages: QUEUE_MESSAGES,
        queue_bytes: QUEUE_BYTES,
        prefetch: PREFETCH,
        connect_timeout: 2 * limit, // `limit` bounds all nodes together, and ends first
        connection_name: format!("{} tail", config.application_name),
        product: "outbox-relay".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    match timeout(limit, Consumer::connect(&consume)).await {
        Ok(opened) => opened.map_err(|error| end_of_start(&error, address)),
        Err(_elapsed) => Err(RunError::new(Kind::Broker, format!("{url} has not answered within {}", exact(limit)))
            .hint("check that the broker runs, and has no alarm")),
    }
}

fn lost(error: AmqpError) -> RunError {
    RunError::new(Kind::Broker, "lost the broker").hint("run the command again").source(error)
}
