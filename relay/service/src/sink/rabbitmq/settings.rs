//! RabbitMQ's part of the service's settings, and the publisher's settings that follow from them.

use std::time::Duration;

use amqp_publisher::{AmqpUrl, ExchangeUse, PublishConfig};
use outbox_core::SIDE_CHANNELS;

use super::Config;
use crate::config::PROGRAM;

/// Time limit of connecting to RabbitMQ; `pg_replication` has the same for PostgreSQL. Both URLs can override it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause before a channel is opened in place of a closed one. RabbitMQ 3.10 stopped counting a closed channel within
/// 1 to 5 ms, measured on a busy machine.
const REOPEN_AFTER: Duration = Duration::from_millis(5);

/// RabbitMQ's part of all settings; `None`: no broker is configured.
pub fn settings(config: &crate::Config) -> Option<&Config> {
    config.sink.as_ref()?.rabbitmq()
}

/// The publisher's settings for RabbitMQ at `url`.
pub fn publish_config(config: &crate::Config, rabbitmq: &Config, url: AmqpUrl) -> PublishConfig {
    PublishConfig {
        url,
        try_first: None,
        try_last: None,
        exchange: rabbitmq.exchange.clone(),
        exchange_use: if rabbitmq.declare_exchange { ExchangeUse::Declare } else { ExchangeUse::Take },
        app_id: config.application_name.clone(),
        window: config.in_flight,
        side_channels: u16::try_from(SIDE_CHANNELS).unwrap_or(u16::MAX),
        confirm_timeout: config.confirm_timeout,
        connect_timeout: CONNECT_TIMEOUT,
        reopen_after: REOPEN_AFTER,
        prove: false,
        connection_name: config.application_name.clone(),
        product: PROGRAM.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
