//! Turns raw settings into a [`Config`], or into a list of everything that is wrong with them.

use std::time::Duration;

use serde::Serialize;

use super::{
    raw::RawSettings,
    setting::Setting,
    settings::{Config, SETTINGS, by_key},
    value::Value,
};

/// The servers whose addresses a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// PostgreSQL and RabbitMQ.
    All,
    /// PostgreSQL alone: a DBA who runs `init` needs no broker.
    Database,
}

impl Servers {
    /// Whether the command cannot work without `setting`. The other settings' files may be closed to the user who runs
    /// the command.
    fn need(self, setting: &Setting) -> bool {
        self == Self::All || !setting.rule.is_secret() || setting.key == "database_url"
    }
}

/// A setting in force.
#[derive(Debug, Serialize)]
pub(crate) struct InForce {
    /// The setting's key.
    pub(crate) key: &'static str,
    /// The value, without a password; null if there is none.
    pub(crate) value: Option<String>,
    /// Where the value was given: a flag, a variable, a file with its line, or `default`.
    pub(crate) origin: String,
}

impl RawSettings {
    /// Checks every value, for a command that needs these servers.
    pub(crate) fn resolve(&self, servers: Servers) -> Result<Config, Invalid> {
        let mut problems = self.problems.clone();
        let config = Config::read(self, |setting| servers.need(setting), &mut problems);
        self.compare::<Duration>("retry_base", "retry_max", &mut problems);
        self.compare::<usize>("in_flight", "max_events", &mut problems);
        if let Some(config) = &config
            && config.max_slot_wal.0.is_some()
            && !config.create_slot
        {
            problems.push(self.contradiction(
                "max_slot_wal",
                "create_slot",
                "a dropped slot would not be created again",
            ));
        }
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(Invalid { problems }),
        }
    }

    /// Checks that `low` is not greater than `high`, if both are valid by themselves.
    fn compare<T: Value + PartialOrd>(&self, low: &str, high: &str, problems: &mut Vec<String>) {
        let read = |key: &str| {
            let setting = by_key(key)?;
            Some((setting, self.value::<T>(setting, true, &mut Vec::new())?))
        };
        if let (Some((low, least)), Some((high, most))) = (read(low), read(high))
            && least > most
        {
            problems.push(format!("{}: more than {}", self.shown(low), self.shown(high)));
        }
    }

    /// Returns a line that says that two settings contradict each other, and why.
    fn contradiction(&self, one: &str, other: &str, why: &str) -> String {
        let shown = |key: &str| by_key(key).map(|setting| self.shown(setting)).unwrap_or_default();
        format!("{}: not together with {}: {why}", shown(one), shown(other))
    }

    /// Returns every setting with its value and origin, without passwords. The settings must be ones that
    /// [`resolve`](Self::resolve) has accepted.
    pub(crate) fn in_force(&self) -> impl Iterator<Item = InForce> {
        SETTINGS.iter().map(|setting| InForce {
            key: setting.key,
            value: Some(self.harmless(setting)).filter(|value| !value.is_empty()),
            origin: self.origin(setting),
        })
    }
}

/// Everything that is wrong with the settings, a line each: name, origin, value (unless secret), allowed values.
#[derive(Debug, thiserror::Error)]
#[error("{}", problems.join("\n"))]
pub(crate) struct Invalid {
    problems: Vec<String>,
}

impl Invalid {
    /// Returns one line for each problem.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().map(String::as_str)
    }
}
