//! Turns raw settings into a [`Config`], or into a list of everything that is wrong with them.

use serde::Serialize;

use super::{
    raw::RawSettings,
    setting::{Name, Setting},
    settings::{Config, SETTINGS, by_key},
    units::parse_time,
};

/// The settings of which each names a broker. Exactly one broker is given, because a relay publishes to one.
pub(super) const BROKERS: [&str; 2] = ["amqp_url", "kafka_url"];

/// The servers whose addresses a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// PostgreSQL and a broker.
    All,
    /// PostgreSQL alone: a DBA who runs `init` needs no broker.
    Database,
}

impl Servers {
    /// Whether the command reads the file that holds `setting`. The other settings' files may be closed to the user who
    /// runs the command.
    fn need(self, setting: &Setting) -> bool {
        self == Self::All || setting.key == "database_url"
    }
}

/// A setting in force.
#[derive(Debug, Serialize)]
pub(crate) struct InForce {
    /// The setting's key.
    pub(crate) key: String,
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
        if servers == Servers::All {
            problems.extend(self.not_one_of(&BROKERS));
            problems.extend(self.of_other_broker(&BROKERS));
        }
        problems.extend(self.not_above("retry_base", "retry_max"));
        if let Some(config) = &config
            && config.max_slot_wal.is_some()
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

    /// Returns a line if not exactly one of these settings is given.
    pub(super) fn not_one_of(&self, keys: &[&str]) -> Option<String> {
        let all: Vec<Name> = keys.iter().filter_map(|key| by_key(key)).collect();
        let given: Vec<Name> = all.iter().filter_map(|name| self.given_as(name.setting)).collect();
        match given.as_slice() {
            [_] => None,
            [] => {
                let missing = |name: &Name| {
                    let what = name.allowed();
                    format!("{}: expected {}", self.shown(*name), what.strip_prefix("off, or ").unwrap_or(&what))
                };
                Some(all.iter().map(missing).collect::<Vec<_>>().join("; or "))
            }
            [one, others @ ..] => {
                let others: Vec<String> = others.iter().map(|name| self.shown(*name)).collect();
                let why = "a relay publishes to one broker: leave the others out";
                Some(format!("{}: not together with {}: {why}", self.shown(*one), others.join(" and ")))
            }
        }
    }

    /// Returns a line for each setting that has an effect only with a broker that is not given, while another is.
    fn of_other_broker(&self, brokers: &[&str]) -> Vec<String> {
        let all: Vec<Name> = brokers.iter().filter_map(|key| by_key(key)).collect();
        let (given, others): (Vec<Name>, Vec<Name>) =
            all.iter().partition(|broker| self.given_as(broker.setting).is_some());
        let [given] = given.as_slice() else { return Vec::new() };
        let is_of_other = |setting: &&'static Setting| {
            others.iter().any(|broker| broker.setting.group == setting.group && broker.setting.key != setting.key)
        };
        let line = |setting: &'static Setting| {
            let (broker, group) = (given.key(), setting.group);
            format!(
                "{}: a setting of {group}, and {broker} names another broker: leave it out",
                self.shown(setting.name())
            )
        };
        SETTINGS.iter().filter(is_of_other).filter(|setting| self.is_changed(setting)).map(line).collect()
    }

    /// Returns a line if the time `low` is longer than the time `high`, and both are allowed by themselves.
    fn not_above(&self, low: &str, high: &str) -> Option<String> {
        let time = |key| {
            let name = by_key(key)?;
            Some((name, self.text(name.setting).filter(|text| name.setting.allows(text)).and_then(parse_time)?))
        };
        let ((low, least), (high, most)) = (time(low)?, time(high)?);
        (least > most).then(|| format!("{}: more than {}", self.shown(low), self.shown(high)))
    }

    /// Returns a line that says that two settings contradict each other, and why.
    fn contradiction(&self, one: &str, other: &str, why: &str) -> String {
        let shown = |key: &str| by_key(key).map(|name| self.shown(name)).unwrap_or_default();
        format!("{}: not together with {}: {why}", shown(one), shown(other))
    }

    /// Returns every setting with its value and origin, without passwords, and the files that hold values. The settings
    /// must be ones that [`resolve`](Self::resolve) has accepted.
    pub(crate) fn in_force(&self) -> impl Iterator<Item = InForce> {
        let in_force = |name: Name| InForce {
            key: name.key(),
            value: Some(self.harmless(name)).filter(|value| !value.is_empty()),
            origin: self.origin(name.setting),
        };
        let is_shown = |name: &Name| !name.is_file || self.file(name.setting).is_some();
        SETTINGS.iter().flat_map(Setting::names).filter(is_shown).map(in_force)
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
