//! What was given for each setting, where, and whether it will do.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fmt::Write,
    path::PathBuf,
};

use clap::ArgMatches;

use super::{
    environment, file,
    flags::{self, Command},
    invalid::Invalid,
    rule::Rule,
    setting::Setting,
    settings::{Config, SETTINGS},
    value::Value,
};

/// The text of every setting that was given, with its origin; and what could not be understood.
#[derive(Default)]
pub struct Given {
    values: HashMap<&'static str, Raw>,
    problems: Vec<String>,
}

/// A value before it is checked. It may be a secret: no `Debug`.
struct Raw {
    text: String,
    origin: Origin,
}

/// Where a value stands.
pub(super) enum Origin {
    /// On the command line.
    Flag,
    /// In this environment variable.
    Variable(String),
    /// In the file, on this line (1 is the first).
    File { path: PathBuf, line: usize },
}

impl Given {
    /// Collects from the file, the environment and the flags. What is wrong is told by [`resolve`](Self::resolve).
    pub(super) fn collect(flags: &ArgMatches, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let variables: BTreeMap<OsString, OsString> = variables.into_iter().collect();
        let mut given = Self::default();
        if let Some(path) = flags::config_file(flags).or_else(|| environment::config_file(&variables)) {
            file::read(&path, &mut given);
        }
        environment::read(&variables, &mut given);
        flags::read(flags, &mut given);
        given
    }

    /// Takes a value; it overrides one given before.
    pub(super) fn give(&mut self, setting: &'static Setting, text: String, origin: Origin) {
        self.values.insert(setting.key, Raw { text, origin });
    }

    /// Takes note of something that cannot be understood.
    pub(super) fn refuse(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Checks every value for `command`.
    pub fn resolve(&self, command: Command) -> Result<Config, Invalid> {
        let mut problems = self.problems.clone();
        let config = Config::read(self, command, &mut problems);
        if let Some(config) = &config {
            self.compare(config, &mut problems);
        }
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(Invalid::new(problems)),
        }
    }

    /// Settings whose range depends on another.
    fn compare(&self, config: &Config, problems: &mut Vec<String>) {
        let mut at_most = |fits: bool, low: &str, high: &str| {
            if !fits {
                problems.push(format!("{}: more than {}", self.shown(low), self.shown(high)));
            }
        };
        at_most(config.retry_base <= config.retry_max, "retry_base", "retry_max");
        at_most(config.in_flight <= config.max_events, "in_flight", "max_events");
    }

    /// The checked value of one setting; when it is bad, `problems` grows by a line.
    pub(super) fn value<T: Value>(&self, key: &str, command: Command, problems: &mut Vec<String>) -> Option<T> {
        let setting = SETTINGS.iter().find(|setting| setting.key == key)?;
        let read = match (self.values.get(key), setting.default) {
            (Some(raw), _) => T::read(&setting.rule, &raw.text),
            (None, Some(default)) => T::read(&setting.rule, default),
            (None, None) if !command.needs(setting) => return T::unneeded(),
            (None, None) => Err(format!("expected {}", setting.rule.allowed())),
        };
        read.map_err(|why| problems.push(format!("{}: {why}", self.shown(key)))).ok()
    }

    /// A setting with its value, written as it is written where it comes from.
    fn shown(&self, key: &str) -> String {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
            return key.to_owned();
        };
        let Some(Raw { text, origin }) = self.values.get(key) else {
            return match setting.default {
                Some(default) => format!("{key} = {default} (default)"),
                None => format!("{} is not set", setting.variable()),
            };
        };
        let text = if setting.rule.is_secret() { "(hidden)".to_owned() } else { text.escape_debug().to_string() };
        match origin {
            Origin::Flag => format!("--{} {text}", setting.flag()),
            Origin::Variable(name) => format!("{name}={text}"),
            Origin::File { path, line } => format!("{}:{line}: {key} = {text}", path.display()),
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

    /// The value as it may be shown.
    fn harmless(&self, setting: &Setting) -> String {
        let text = self.values.get(setting.key).map(|raw| raw.text.as_str()).or(setting.default).unwrap_or_default();
        match setting.rule {
            Rule::Url { check, .. } => check(text).unwrap_or_else(|_| "(hidden)".to_owned()),
            _ => text.escape_debug().to_string(),
        }
    }

    fn origin(&self, setting: &Setting) -> String {
        match self.values.get(setting.key).map(|raw| &raw.origin) {
            None => "default".to_owned(),
            Some(Origin::Flag) => format!("--{}", setting.flag()),
            Some(Origin::Variable(name)) => name.clone(),
            Some(Origin::File { path, line }) => format!("{}:{line}", path.display()),
        }
    }
}
