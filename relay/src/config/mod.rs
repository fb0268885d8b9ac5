//! Settings: what there is to set, where a value comes from, and what it may be.
//!
//! [`settings`](SETTINGS) is the one list. The flags, the variables, the keys of the file, the defaults, the allowed
//! values, the help text and the reference pages are all made from it.
//!
//! ```text
//!  file ─▶ environment ─▶ flags ─▶ Given ─▶ resolve ─▶ Config
//!  (each overrides the one before)  (text, origin)  (checks every value)
//! ```

mod environment;
mod file;
mod flags;
mod given;
#[cfg(test)]
mod reference;
mod resolve;
mod rule;
mod setting;
mod settings;
#[cfg(test)]
mod tests;
mod units;
mod urls;
mod value;

use std::time::Duration;

pub use self::{
    flags::{Command, PRECEDENCE, command, parse},
    given::Given,
    resolve::Invalid,
    rule::Rule,
    setting::Setting,
    settings::{Config, SETTINGS},
    value::{AfterFailed, LogFormat, Secret, Unroutable},
};
use crate::{
    dispatch::{Limits, Policy, Retry},
    publish::{ExchangeUse, InvalidAmqpUrl, PublishConfig},
};

/// How long connecting to RabbitMQ may take; for PostgreSQL the same is built in. Both URLs can override it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Config {
    /// What the publisher needs to know.
    ///
    /// # Errors
    ///
    /// The URL is empty: `init` needs none, so it may be left out there.
    pub fn publish(&self) -> Result<PublishConfig, InvalidAmqpUrl> {
        Ok(PublishConfig {
            url: self.amqp_url.expose().parse()?,
            exchange: self.exchange.clone(),
            exchange_use: if self.declare_exchange { ExchangeUse::Declare } else { ExchangeUse::Take },
            app_id: self.app_id.clone(),
            window: self.in_flight,
            confirm_timeout: self.confirm_timeout,
            connect_timeout: CONNECT_TIMEOUT,
            connection_name: self.application_name.clone(),
        })
    }

    /// By which rules events leave.
    pub fn policy(&self) -> Policy {
        Policy {
            ordering: self.ordering,
            retry: Retry { base: self.retry_base, max: self.retry_max, max_attempts: self.max_attempts },
            retry_for: self.retry_for,
            hold_failed: self.after_failed == AfterFailed::Hold,
        }
    }

    /// Bounds on what is held in memory.
    pub fn limits(&self) -> Limits {
        Limits { max_events: self.max_events, max_bytes: self.max_bytes }
    }
}
