//! RabbitMQ: what an event looks like as a message, and what an operator can do when the broker says no.

mod message;

use std::sync::Arc;

use amqp_publisher::{Notice, PublishConfig, PublishError};

pub use self::message::Outbound;
use crate::{error::chain, event::Event};

const MISMATCH: &str = "name another exchange, or use this one as it is with declare_exchange = false";
const MISSING: &str = "make it again with its bindings, or import the broker's definitions; \
                       started with declare_exchange = true, the relay makes it, without any bindings";

/// A connection over which events are published: [`amqp_publisher::Publisher`] for them.
#[derive(Debug)]
pub struct Publisher(amqp_publisher::Publisher<Outbound>);

impl Publisher {
    /// Connects. See [`amqp_publisher::Publisher::connect`].
    pub async fn connect(config: PublishConfig) -> Result<Self, PublishError> {
        amqp_publisher::Publisher::connect(config).await.map(Self)
    }

    /// Hands events over, to be published in order. Never waits; see [`amqp_publisher::Publisher::publish`].
    pub fn publish(&mut self, batch: Vec<Arc<Event>>) {
        self.0.publish(batch.into_iter().map(Outbound).collect()); // in place: both are a pointer
    }

    /// Waits for news. Cancellation-safe. After [`Notice::Lost`] there is none.
    pub async fn next(&mut self) -> Notice {
        self.0.next().await
    }

    /// Says goodbye to the broker; takes a second at most. Answers that have not been fetched are lost.
    pub async fn close(self) {
        self.0.close().await;
    }
}

/// The error, its causes, and what to do about it where that is known, in one line.
pub fn explain(error: &PublishError) -> String {
    match error {
        PublishError::ExchangeMismatch { exchange, text } => {
            format!("exchange {exchange:?} is not what the relay declares (topic, durable): {text}; {MISMATCH}")
        }
        PublishError::ExchangeMissing { .. } => format!("{}; {MISSING}", chain(error)),
        _ => chain(error),
    }
}

/// Whether [`explain`] tells the operator how to mend it.
pub fn says_what_to_do(error: &PublishError) -> bool {
    matches!(
        error,
        PublishError::ExchangeMismatch { .. }
            | PublishError::ExchangeMissing { .. }
            | PublishError::MayNotPublish { .. }
            | PublishError::WrongPort { .. }
    )
}
