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
    /// What happens to an event whose destination has no queue.
    pub unroutable: Unroutable,
    /// Whether messages have the headers `aggregate_type` and `aggregate_id`.
    pub key_headers: bool,
}

/// What happens to an event whose destination has no queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// The event is `FAILED` at once.
    Fail,
    /// The event is retried with its back-off, and counts an attempt each time.
    Retry,
}
