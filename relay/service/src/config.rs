//! The service's configuration: which servers it uses, and its rules and limits. The program `outbox-relay` fills it in
//! from its settings.

use std::{num::NonZeroU32, time::Duration};

use outbox_core::{Limits, Policy};
use pg_replication::ConnInfo;
use tracing::{Level, enabled};

use crate::{
    address::Address,
    collector::OtlpEndpoint,
    sink::{Unroutable, config::SinkConfig},
};

/// The program's name, sent to brokers and to collectors of spans.
pub(crate) const PROGRAM: &str = "outbox-relay";

/// After this time without a confirm, a destination counts as silent. A healthy quorum queue confirms within some tens
/// of milliseconds, and stays silent for some seconds while it elects a leader.
const SILENT_AFTER: Duration = Duration::from_secs(4);

/// There are no more events in memory than one for each of these bytes, because each needs room beside its contents.
const BYTES_PER_EVENT: usize = 3 << 10;

/// Most verdicts written by one statement. A batch is no larger than `in_flight` either, so that a crash repeats at
/// most three times as many: those in flight, a batch being written, and one being filled.
const LARGEST_BATCH: usize = 1000;

/// Longest time that a verdict waits for others to share its statement: about what a commit costs.
const SETTLE_INTERVAL: Duration = Duration::from_millis(5);

/// Longest time between two standby status updates while nothing advances: the default of PostgreSQL's own receivers.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// The settings of the service. docs/configuration.md explains each of them to operators.
#[derive(Clone, Debug)]
pub struct Config {
    /// PostgreSQL to read from.
    pub database_url: Address<ConnInfo>,
    /// The broker to publish to; `None` for commands that need no broker.
    pub sink: Option<SinkConfig>,
    /// Whether the startup ends instead of waiting for a server or for the schema's upgrade.
    pub no_wait: bool,
    /// Name under which both servers list the connections.
    pub application_name: String,
    /// Publication of the outbox table.
    pub publication: String,
    /// Replication slot.
    pub slot: String,
    /// Whether a missing publication or slot is created.
    pub create_slot: bool,
    /// Whether standbys may copy the slot.
    pub failover_slot: bool,
    /// Bytes of WAL that the slot may keep before it is dropped and created again; `None`: no limit.
    pub max_slot_wal: Option<u64>,
    /// How long the active relay may be unresponsive before a standby takes over.
    pub takeover_after: Duration,
    /// Longest time between two checks of the publication and the table.
    pub check_interval: Duration,
    /// Most events published and not yet confirmed.
    pub in_flight: usize,
    /// What happens to an event whose destination does not exist.
    pub unroutable: Unroutable,
    /// Most events published per second; `None`: as fast as the broker takes them.
    pub max_rate: Option<NonZeroU32>,
    /// After this time without any confirm, the connection to the broker is dropped.
    pub confirm_timeout: Duration,
    /// Order within a key, retries, and what follows a failure.
    pub policy: Policy,
    /// Most bytes of events kept in memory.
    pub max_bytes: usize,
    /// After this time without the broker, events stay in the table.
    pub park_after: Duration,
    /// Time limit of the drain.
    pub shutdown_timeout: Duration,
    /// Collector of the spans of sampled events; `None`: no spans are made.
    pub collector: Option<OtlpEndpoint>,
}

impl Config {
    /// The core's rules and limits. The server ends a stream whose reader is silent for longer than `silence`.
    pub(crate) fn core(&self, silence: Duration) -> outbox_core::Config {
        outbox_core::Config {
            in_flight: self.in_flight,
            max_rate: self.max_rate,
            limits: Limits {
                max_events: self.in_flight.max(self.max_bytes / BYTES_PER_EVENT),
                max_bytes: self.max_bytes,
            },
            policy: self.policy,
            settle_batch: self.in_flight.min(LARGEST_BATCH),
            settle_interval: SETTLE_INTERVAL,
            park_after: self.park_after,
            silent_after: SILENT_AFTER.min(self.confirm_timeout / 5), // shorter than the limit that ends the connection
            confirm_timeout: self.confirm_timeout,
            max_slot_wal: self.max_slot_wal,
            check_interval: self.check_interval,
            drain_timeout: self.shutdown_timeout,
            status_interval: STATUS_INTERVAL.min(silence / 3), // a third leaves room for two late updates
            stands_still_after: silence / 2,
            repairs_publication: self.create_slot,
            reports_delivered: enabled!(target: "relay", Level::DEBUG),
        }
    }
}
