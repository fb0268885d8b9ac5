//! Settings: what there is to set, where a value comes from, and what it may be.
//!
//! [`settings`](SETTINGS) is the one list. The flags, the variables, the keys of the file, the defaults, the allowed
//! values, the help text and the reference pages are all made from it.
//!
//! ```text
//!  file ─▶ environment ─▶ flags ─▶ Given ─▶ resolve ─▶ Config
//!  (each overrides the one before)  (text, origin)  (checks every value)
//! ```

mod address;
mod environment;
mod file;
mod flags;
mod given;
mod otlp;
mod resolve;
mod rule;
mod setting;
mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod text_file;
mod units;
mod value;

use std::time::Duration;

use amqp_publisher::{AmqpUrl, ExchangeUse, PublishConfig};

pub use self::{
    address::{Address, BadFile},
    flags::{PRECEDENCE, collect, read, with_settings},
    given::Given,
    otlp::{OtlpEndpoint, OtlpHeaders},
    resolve::{InForce, Invalid, Servers},
    rule::Rule,
    setting::Setting,
    settings::{Config, SETTINGS},
    value::{AfterFailed, Listen, LogFormat, Optional, Unroutable},
};
use outbox_core::{Backoff, Limits, Policy, SIDE_CHANNELS};
use tracing::{Level, enabled};

/// How long connecting to RabbitMQ may take; for PostgreSQL the same is built in. Both URLs can override it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// RabbitMQ 3.10 was seen to count a closed channel off within 1 to 5 ms, on a machine with much else to do.
const REOPEN_AFTER: Duration = Duration::from_millis(5);

/// A healthy quorum queue confirms within some tens of milliseconds, and stays silent for some seconds while it elects a leader.
const SILENT_AFTER: Duration = Duration::from_secs(4);

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
            product: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The rules and bounds by which events leave. A server ends a stream whose reader is silent for longer than `silence`.
    pub fn core(&self, silence: Duration) -> outbox_core::Config {
        outbox_core::Config {
            in_flight: self.in_flight,
            max_rate: self.max_rate.0,
            limits: Limits { max_events: self.max_events, max_bytes: self.max_bytes },
            policy: Policy {
                ordering: self.ordering,
                backoff: Backoff { base: self.retry_base, max: self.retry_max },
                max_attempts: self.max_attempts,
                retry_for: self.retry_for,
                hold_failed: self.after_failed == AfterFailed::Hold,
            },
            settle_batch: self.settle_batch,
            settle_interval: self.settle_interval,
            park_after: self.park_after,
            silent_after: SILENT_AFTER.min(self.confirm_timeout / 5), // found before the connection is given up
            max_slot_wal: self.max_slot_wal.0,
            check_interval: self.check_interval,
            drain_timeout: self.shutdown_timeout,
            status_interval: self.status_interval.min(silence / 3), // a third leaves room for two late updates
            stands_still_after: silence / 2,
            repairs_publication: self.create_slot,
            reports_delivered: enabled!(target: "relay", Level::DEBUG),
        }
    }
}
