//! Kafka, as people ask about it.

mod check;
mod lately;
mod message;
mod rights;
mod settings;
mod tail;
mod topic;
mod topics;

use std::{fmt::Display, time::Duration};

use outbox_service::{Config, error::RunError, sink::kafka};
use tokio_postgres::Client;

use super::{OnceKnown, Sink};
use crate::findings::Report;

/// Checks and messages of Kafka.
#[derive(Debug)]
pub struct Kafka;

impl Sink for Kafka {
    type Tail = tail::Tail;

    const CHECKS: &'static [&'static str] = &[
        "broker",
        "transactional_id",
        "topics",
        "topic_rights",
        "replicas",
        "record_sizes",
        "retention",
        "record_times",
        "broker_certificate",
    ];
    const QUESTION: Option<&'static str> = None;

    fn address(config: &Config) -> Option<&dyn Display> {
        kafka::settings(config).map(|kafka| &kafka.url as _)
    }

    async fn check_broker(config: &Config, report: &mut Report) -> Option<OnceKnown> {
        check::inspect(config, report).await;
        None
    }

    async fn check_routes(config: &Config, client: &Client, report: &mut Report) {
        topics::inspect(config, client, report).await;
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
