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
mod raw;
mod resolve;
mod rule;
mod setting;
mod settings;
#[cfg(test)]
mod tests;
mod units;
mod value;

use outbox_console::{DashboardConfig, retention};
use outbox_core::{Backoff, Limits, Policy};
use outbox_service::collector::Collector;

use self::value::AfterFailed;
pub(crate) use self::{
    flags::{PRECEDENCE, collect, read, with_settings},
    raw::RawSettings,
    resolve::Servers,
    setting::Setting,
    settings::Config,
    value::LogFormat,
};
#[cfg(test)]
pub(crate) use self::{rule::Rule, settings::SETTINGS};

impl Config {
    /// Returns the service's configuration.
    pub(crate) fn service(&self) -> outbox_service::Config {
        outbox_service::Config {
            database_url: self.database_url.clone(),
            amqp_url: self.amqp_url.clone(),
            no_wait: self.no_wait,
            application_name: self.application_name.clone(),
            publication: self.publication.clone(),
            slot: self.slot.clone(),
            create_slot: self.create_slot,
            failover_slot: self.failover_slot,
            max_slot_wal: self.max_slot_wal.0,
            takeover_after: self.takeover_after,
            check_interval: self.check_interval,
            status_interval: self.status_interval,
            exchange: self.exchange.clone(),
            declare_exchange: self.declare_exchange,
            unroutable: self.unroutable,
            in_flight: self.in_flight,
            max_rate: self.max_rate.0,
            confirm_timeout: self.confirm_timeout,
            app_id: self.app_id.clone(),
            key_headers: self.key_headers,
            policy: Policy {
                ordering: self.ordering,
                backoff: Backoff { base: self.retry_base, max: self.retry_max },
                max_attempts: self.max_attempts,
                retry_for: self.retry_for,
                hold_failed: self.after_failed == AfterFailed::Hold,
            },
            limits: Limits { max_events: self.max_events, max_bytes: self.max_bytes },
            park_after: self.park_after,
            settle_batch: self.settle_batch,
            settle_interval: self.settle_interval,
            shutdown_timeout: self.shutdown_timeout,
            collector: self.otlp_endpoint.0.clone().map(|endpoint| Collector {
                endpoint,
                headers: self.otlp_headers.0.clone(),
                service_name: self.otlp_service_name.clone(),
            }),
        }
    }

    /// Returns the console's configuration.
    pub(crate) fn console(&self) -> outbox_console::Config {
        outbox_console::Config {
            relay: self.service(),
            retention: retention::Policy { sent: self.retention.0, failed: self.retention_failed.0 },
            http_listen: self.http_listen.0,
            dashboard: self.dashboard.then(|| DashboardConfig {
                database_url: self.dashboard_database_url.0.clone(),
                operator_database_url: self.dashboard_operator_database_url.0.clone(),
                readers: self.dashboard_readers.0.clone(),
                operators: self.dashboard_operators.0.clone(),
                hosts: self.dashboard_hosts.clone(),
                path: self.dashboard_path.clone(),
            }),
        }
    }
}
