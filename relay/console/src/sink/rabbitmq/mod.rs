//! RabbitMQ, as people ask about it.

mod check;
mod message;
mod routes;
mod tail;

use std::{fmt::Display, time::Duration};

use outbox_service::{Config, error::RunError, sink::rabbitmq};
use tokio_postgres::Client;

use super::{OnceKnown, Sink};
use crate::findings::Report;

/// Checks and messages of RabbitMQ.
#[derive(Debug)]
pub struct RabbitMq;

impl Sink for RabbitMq {
    type Tail = tail::Tail;

    const CHECKS: &'static [&'static str] = &["broker", "exchange", "routes", "broker_certificate"];
    const QUESTION: Option<&'static str> = Some(tail::QUESTION);

    fn address(config: &Config) -> Option<&dyn Display> {
        rabbitmq::settings(config).map(|rabbitmq| &rabbitmq.url as _)
    }

    async fn check_broker(config: &Config, report: &mut Report) -> Option<OnceKnown> {
        check::inspect(config, report).await
    }

    async fn check_routes(_config: &Config, client: &Client, report: &mut Report) {
        routes::inspect(client, report).await;
    }

    async fn tail(
        config: &Config,
        patterns: &[String],
        payload: bool,
        limit: Duration,
    ) -> Result<tail::Tail, RunError> {
        tail::Tail::open(config, patterns, payload, limit).await
    }
}
