//! What the service is to do, and with which servers. Whoever runs it fills this in; the program does so from its
//! settings.

use std::{num::NonZeroU32, time::Duration};

use amqp_publisher::{AmqpUrl, ExchangeUse, PublishConfig};
use outbox_core::{Limits, Policy, SIDE_CHANNELS};
use pg_replication::ConnInfo;
use tracing::{Level, enabled};

use crate::{address::Address, collector::Collector, sink::rabbitmq::Unroutable};

/// The program's name, as RabbitMQ and collectors of spans are told it.
pub(crate) const PROGRAM: &str = "outbox-relay";

/// How long connecting to RabbitMQ may take; for PostgreSQL the same is built in. Both URLs can override it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// RabbitMQ 3.10 was seen to count a closed channel off within 1 to 5 ms, on a machine with much else to do.
const REOPEN_AFTER: Duration = Duration::from_millis(5);

/// A healthy quorum queue confirms within some tens of milliseconds, and stays silent for some seconds while it elects
/// a leader.
const SILENT_AFTER: Duration = Duration::from_secs(4);

/// The settings of the service. docs/configuration.md says of each what it means to an operator.
#[derive(Clone, Debug)]
pub struct Config {
    /// PostgreSQL to read from.
    pub database_url: Address<ConnInfo>,
    /// RabbitMQ to publish to; `None`: what is asked for needs no broker.
    pub amqp_url: Option<Address<AmqpUrl>>,
    /// Whether a start ends instead of waiting for a server or for the schema's upgrade.
    pub no_wait: bool,
    /// Name under which both servers list the connections.
    pub application_name: String,
    /// Publication of the outbox table.
    pub publication: String,
    /// Replication slot.
    pub slot: String,
    /// Whether publication and slot are created when they are missing.
    pub create_slot: bool,
    /// Whether standbys may copy the slot.
    pub failover_slot: bool,
    /// Bytes of WAL that the slot may keep before it is created again; `None`: without a limit.
    pub max_slot_wal: Option<u64>,
    /// How long the active relay may be unresponsive before a standby takes over.
    pub takeover_after: Duration,
    /// How often the relay checks publication and table even if nothing calls for it.
    pub check_interval: Duration,
    /// Longest time between two standby status updates.
    pub status_interval: Duration,
    /// Exchange of events that name none.
    pub exchange: String,
    /// Whether the exchange is declared at the first connection.
    pub declare_exchange: bool,
    /// What becomes of an event that no queue is bound for.
    pub unroutable: Unroutable,
    /// Events handed to RabbitMQ and not yet confirmed, at most.
    pub in_flight: usize,
    /// Events published in a second, at most; `None`: as fast as RabbitMQ takes them.
    pub max_rate: Option<NonZeroU32>,
    /// How long RabbitMQ may confirm nothing before the connection is dropped.
    pub confirm_timeout: Duration,
    /// AMQP `app_id` of every message.
    pub app_id: String,
    /// Whether messages have the headers `aggregate_type` and `aggregate_id`.
    pub key_headers: bool,
    /// Order within a key, retries, and what follows a failure.
    pub policy: Policy,
    /// Bounds on what is held in memory.
    pub limits: Limits,
    /// How long RabbitMQ may be away before events stay in the table.
    pub park_after: Duration,
    /// Verdicts written in one statement, at most.
    pub settle_batch: usize,
    /// How long a verdict may wait for others to share its statement.
    pub settle_interval: Duration,
    /// How long the drain may take.
    pub shutdown_timeout: Duration,
    /// Where spans of sampled events go; `None`: nowhere.
    pub collector: Option<Collector>,
}

impl Config {
    /// What the publisher needs to know, to publish to this broker.
    pub fn publish(&self, url: AmqpUrl) -> PublishConfig {
        PublishConfig {
            url,
            try_first: None,
            try_last: None,
            exchange: self.exchange.clone(),
            exchange_use: if self.declare_exchange { ExchangeUse::Declare } else { ExchangeUse::Take },
            app_id: self.app_id.clone(),
            window: self.in_flight,
            side_channels: u16::try_from(SIDE_CHANNELS).unwrap_or(u16::MAX),
            confirm_timeout: self.confirm_timeout,
            connect_timeout: CONNECT_TIMEOUT,
            reopen_after: REOPEN_AFTER,
            prove: false,
            connection_name: self.application_name.clone(),
            product: PROGRAM.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The rules and bounds by which events leave. A server ends a stream whose reader is silent for longer than
    /// `silence`.
    pub(crate) fn core(&self, silence: Duration) -> outbox_core::Config {
        outbox_core::Config {
            in_flight: self.in_flight,
            max_rate: self.max_rate,
            limits: self.limits,
            policy: self.policy,
            settle_batch: self.settle_batch,
            settle_interval: self.settle_interval,
            park_after: self.park_after,
            silent_after: SILENT_AFTER.min(self.confirm_timeout / 5), // found before the connection is given up
            max_slot_wal: self.max_slot_wal,
            check_interval: self.check_interval,
            drain_timeout: self.shutdown_timeout,
            status_interval: self.status_interval.min(silence / 3), // a third leaves room for two late updates
            stands_still_after: silence / 2,
            repairs_publication: self.create_slot,
            reports_delivered: enabled!(target: "relay", Level::DEBUG),
        }
    }
}
