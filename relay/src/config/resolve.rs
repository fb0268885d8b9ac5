//! From what was given to a [`Config`], or to everything that is wrong with it.

use std::fmt::Write;

use super::{
    flags::Command,
    given::Given,
    settings::{Config, SETTINGS, by_key},
};

impl Given {
    /// Checks every value for `command`.
    pub fn resolve(&self, command: Command) -> Result<Config, Invalid> {
        let mut problems = self.problems.clone();
        let config = Config::read(self, |setting| command.needs(setting), &mut problems);
        if let Some(config) = &config {
            self.compare(config, &mut problems);
        }
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(Invalid { problems }),
        }
    }

    /// Checks settings whose range depends on another.
    fn compare(&self, config: &Config, problems: &mut Vec<String>) {
        let shown = |key: &str| by_key(key).map(|setting| self.shown(setting)).unwrap_or_default();
        let mut at_most = |fits: bool, low: &str, high: &str| {
            if !fits {
                problems.push(format!("{}: more than {}", shown(low), shown(high)));
            }
        };
        at_most(config.retry_base <= config.retry_max, "retry_base", "retry_max");
        at_most(config.in_flight <= config.max_events, "in_flight", "max_events");
    }

    /// Every setting with its value and origin, a line each; secrets without their passwords. For settings that
    /// [`resolve`](Self::resolve) has accepted.
    pub fn describe(&self) -> String {
        let rows: Vec<_> =
            SETTINGS.iter().map(|setting| (setting.key, self.harmless(setting), self.origin(setting))).collect();
        let key_width = rows.iter().map(|(key, ..)| key.len()).max().unwrap_or_default();
        let value_width = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or_default();
        rows.iter().fold(String::new(), |mut lines, (key, value, origin)| {
            let _ = writeln!(lines, "{key:key_width$}  {value:value_width$}  {origin}"); // a String takes every write
            lines
        })
    }
}

/// Everything that is wrong with the settings, one line for each: name, origin, value (unless secret), allowed values.
#[derive(Debug, thiserror::Error)]
#[error("{}", problems.join("\n"))]
pub struct Invalid {
    problems: Vec<String>,
}

impl Invalid {
    /// One line for each problem.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().map(String::as_str)
    }
}
