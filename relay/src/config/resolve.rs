//! From what was given to a [`Config`], or to everything that is wrong with it.

use std::{fmt::Write, time::Duration};

use super::{
    flags::Command,
    given::Given,
    settings::{Config, SETTINGS, by_key},
    value::Value,
};

impl Given {
    /// Checks every value for `command`.
    pub fn resolve(&self, command: Command) -> Result<Config, Invalid> {
        let mut problems = self.problems.clone();
        let config = Config::read(self, |setting| command.needs(setting), &mut problems);
        self.compare::<Duration>("retry_base", "retry_max", &mut problems);
        self.compare::<usize>("in_flight", "max_events", &mut problems);
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(Invalid { problems }),
        }
    }

    /// Checks a setting that may not be greater than another, if both are good by themselves.
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
