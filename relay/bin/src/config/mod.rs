//! Settings: which exist, where a value comes from, and which values are allowed.
//!
//! `settings` is the one list. The flags, the variables, the keys of the file, the defaults, the allowed
//! values, the help text and the reference pages are all made from it.
//!
//! ```text
//!  file ─▶ environment ─▶ flags ─▶ RawSettings ─▶ resolve ─▶ Config
//!  (each overrides the one before)  (text, origin)  (checks every value)
//! ```

mod environment;
mod file;
mod flags;
mod kind;
mod raw;
mod resolve;
mod retired;
mod setting;
mod settings;
#[cfg(test)]
mod tests;
mod units;

use std::num::NonZeroU32;

use outbox_console::{DashboardConfig, retention};
use outbox_core::{Backoff, Policy};
use outbox_service::{
    address::Address,
    sink::{SinkConfig, kafka, rabbitmq},
};

use self::kind::AfterFailed;
pub(crate) use self::{
    flags::{PRECEDENCE, collect, read, with_settings},
    kind::LogFormat,
    raw::RawSettings,
    resolve::Servers,
    setting::Setting,
    settings::Config,
};
#[cfg(test)]
pub(crate) use self::{retired::RETIRED, settings::SETTINGS};

impl Config {
    /// Returns the service's configuration.
    pub(crate) fn service(&self) -> outbox_service::Config {
        outbox_service::Config {
            database_url: self.database_url.clone(),
            sink: self.sink(),
            no_wait: self.no_wait,
            application_name: self.application_name.clone(),
            publication: self.publication.clone(),
            slot: self.slot.clone(),
            create_slot: self.create_slot,
            failover_slot: self.failover_slot,
            max_slot_wal: self.max_slot_wal,
            takeover_after: self.takeover_after,
            check_interval: self.check_interval,
            in_flight: self.in_flight,
            unroutable: self.unroutable,
            max_rate: self.max_rate.and_then(NonZeroU32::new),
            confirm_timeout: self.confirm_timeout,
            policy: Policy {
                ordering: self.ordering,
                backoff: Backoff { base: self.retry_base, max: self.retry_max },
                max_attempts: self.max_attempts,
                retry_for: self.retry_for,
                hold_failed: self.after_failed == AfterFailed::Hold,
            },
            max_bytes: self.max_bytes,
            park_after: self.park_after,
            shutdown_timeout: self.shutdown_timeout,
            collector: self.otlp_endpoint.as_ref().and_then(Address::latest),
        }
    }

    /// Returns the one broker that is given, with its settings.
    fn sink(&self) -> Option<SinkConfig> {
        let rabbitmq = self.amqp_url.clone().map(|url| rabbitmq::Config {
            url,
            exchange: self.exchange.clone(),
            declare_exchange: self.declare_exchange,
            key_headers: self.key_headers,
        });
        let kafka = self.kafka_url.clone().map(|url| kafka::Config {
            url,
            topic: self.kafka_topic.clone(),
            read_back: self.kafka_read_back,
            compression: self.kafka_compression,
            envelope: self.envelope,
        });
        rabbitmq.map(SinkConfig::RabbitMq).or(kafka.map(SinkConfig::Kafka))
    }

    /// Returns the console's configuration.
    pub(crate) fn console(&self) -> outbox_console::Config {
        outbox_console::Config {
            relay: self.service(),
            retention: retention::Policy { sent: self.retention, failed: self.retention_failed },
            http_listen: self.http_listen,
            dashboard: self.dashboard.then(|| DashboardConfig {
                instance_name: self.instance_name.clone(),
                database_url: self.dashboard_database_url.clone(),
                operator_database_url: self.dashboard_operator_database_url.clone(),
                readers: self.dashboard_readers.clone(),
                operators: self.dashboard_operators.clone(),
                hosts: self.dashboard_hosts.clone(),
                path: self.dashboard_path.clone(),
            }),
        }
    }
}
