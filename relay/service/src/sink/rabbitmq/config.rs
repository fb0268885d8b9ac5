//! The settings that only RabbitMQ has.

use amqp_publisher::AmqpUrl;

use super::Unroutable;
use crate::{address::Address, config, sink::SinkConfig};

/// RabbitMQ's part of the settings. docs/configuration.md explains each of them to operators.
#[derive(Clone, Debug)]
pub struct Config {
    /// RabbitMQ to publish to.
    pub url: Address<AmqpUrl>,
    /// Exchange for events without an exchange of their own.
    pub exchange: String,
    /// Whether the exchange is declared at the first connection.
    pub declare_exchange: bool,
    /// What happens to an event whose destination has no queue.
    pub unroutable: Unroutable,
    /// Whether messages have the headers `aggregate_type` and `aggregate_id`.
    pub key_headers: bool,
}

impl Config {
    /// RabbitMQ's part of all settings; `None`: no broker is configured.
    pub fn of(config: &config::Config) -> Option<&Self> {
        let SinkConfig::RabbitMq(rabbitmq) = config.sink.as_ref()?;
        Some(rabbitmq)
    }
}
