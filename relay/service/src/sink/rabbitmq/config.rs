//! The settings that only RabbitMQ has.

use amqp_publisher::AmqpUrl;

use crate::address::Address;

/// RabbitMQ's part of the settings. docs/configuration.md explains each of them to operators.
#[derive(Clone, Debug)]
pub struct Config {
    /// RabbitMQ to publish to.
    pub url: Address<AmqpUrl>,
    /// Exchange for events without an exchange of their own.
    pub exchange: String,
    /// Whether the exchange is declared at the first connection.
    pub declare_exchange: bool,
    /// Whether messages have the headers `aggregate_type` and `aggregate_id`.
    pub key_headers: bool,
}
