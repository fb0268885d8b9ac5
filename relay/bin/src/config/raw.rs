//! The settings as they were given, each with its origin.

use std::{collections::HashMap, path::PathBuf};

use outbox_service::{
    redact::{HIDDEN, file_name, redacted},
    text_file::{self, QUOTED, is_quoted},
};

use super::{
    rule::Rule,
    setting::Setting,
    value::{OFF, Value},
};

/// The text of every setting that was given, with its origin.
pub(crate) struct RawSettings {
    /// Every setting that exists.
    settings: &'static [Setting],
    values: HashMap<&'static str, RawValue>,
    /// One line for each input that could not be understood.
    pub(super) problems: Vec<String>,
}

/// A value before it is checked. The type has no `Debug`, because the value may be a secret.
struct RawValue {
    text: String,
    origin: Origin,
}

/// Where a value was given.
pub(super) enum Origin {
    /// On the command line.
    Flag,
    /// In this environment variable.
    Variable(String),
    /// In the file, on this line (1 is the first).
    File { path: PathBuf, line: usize },
}

impl RawSettings {
    /// Makes an empty collection for these settings.
    pub(super) fn of(settings: &'static [Setting]) -> Self {
        Self { settings, values: HashMap::new(), problems: Vec::new() }
    }

    /// Sets a value, overriding an earlier one. White space around it, such as a file's last line end, is removed:
    /// nobody means it.
    pub(super) fn set(&mut self, setting: &'static Setting, text: &str, origin: Origin) {
        self.values.insert(setting.key, RawValue { text: text.trim().to_owned(), origin });
    }

    /// Adds a line about an input that cannot be understood.
    pub(super) fn add_problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Returns the checked value of a setting; if the value is bad, adds a line to `problems`.
    pub(super) fn value<T: Value>(&self, setting: &Setting, needed: bool, problems: &mut Vec<String>) -> Option<T> {
        let (reported_as, read) = match (self.values.get(setting.key), self.file_of(setting), setting.default) {
            (Some(raw), Some((file, _)), _) if raw.text != OFF => {
                (setting, Err(format!("{} is given, too: leave one of them out", self.shown(file))))
            }
            (_, Some((file, path)), _) => (file, T::in_file(path, needed)),
            (Some(raw), None, _) if is_quoted(&raw.text) => (setting, Err(QUOTED.to_owned())),
            (Some(raw), None, _) => (setting, T::read(&setting.rule, &raw.text)),
            (None, None, Some(default)) => (setting, T::read(&setting.rule, default)),
            (None, None, None) if !needed => return T::unneeded(),
            // The name of its file is bad, which is reported for the file's own setting.
            (None, None, None) if self.names_file_of(setting) => return None,
            (None, None, None) => (setting, Err(format!("expected {}", setting.rule.allowed()))),
        };
        read.map_err(|why| problems.push(format!("{}: {why}", self.shown(reported_as)))).ok()
    }

    /// Returns the file that holds the value of this setting, and the setting that names the file.
    fn file_of(&self, setting: &Setting) -> Option<(&'static Setting, PathBuf)> {
        let file = self.settings.iter().find(|other| other.is_file_of(setting))?;
        let path = &self.values.get(file.key)?.text;
        (path != OFF && file.rule.takes(path)).then(|| (file, path.into()))
    }

    /// Whether a file name was given for the value of this setting.
    fn names_file_of(&self, setting: &Setting) -> bool {
        let file = self.settings.iter().find(|other| other.is_file_of(setting));
        let file = file.and_then(|file| self.values.get(file.key));
        file.is_some_and(|raw| raw.text != OFF)
    }

    /// Returns a setting with its value in the form of its origin: as a flag, a variable or a line of the file.
    pub(super) fn shown(&self, setting: &Setting) -> String {
        let key = setting.key;
        let Some(RawValue { text, origin }) = self.values.get(key) else {
            return match setting.default {
                Some(default) => format!("{key} = {default} (default)"),
                None => match self.settings.iter().find(|other| other.is_file_of(setting)) {
                    Some(file) => format!("neither {} nor {} is set", setting.variable(), file.variable()),
                    None => format!("{} is not set", setting.variable()),
                },
            };
        };
        let text = if setting.rule.is_secret() { HIDDEN.to_owned() } else { shown_value(setting, text) };
        match origin {
            Origin::Flag => format!("--{} {text}", setting.flag()),
            Origin::Variable(name) => format!("{name}={text}"),
            Origin::File { path, line } => format!("{}:{line}: {key} = {text}", file_name(path)),
        }
    }

    /// Returns the value without its secrets.
    pub(super) fn harmless(&self, setting: &Setting) -> String {
        let text = self.values.get(setting.key).map(|raw| raw.text.as_str()).or(setting.default).unwrap_or_default();
        match setting.rule {
            Rule::Url { check, .. } | Rule::Secret { check, .. } => {
                let shown = match self.file_of(setting) {
                    Some((_, path)) => text_file::secret(&path).ok().and_then(|text| check(&text).ok()),
                    None => check(text).ok(),
                };
                shown.unwrap_or_else(|| HIDDEN.to_owned())
            }
            _ => shown_value(setting, text),
        }
    }

    /// Returns where the value was given.
    pub(super) fn origin(&self, setting: &'static Setting) -> String {
        let setting = self.file_of(setting).map_or(setting, |(file, _)| file);
        match self.values.get(setting.key).map(|raw| &raw.origin) {
            None => "default".to_owned(),
            Some(Origin::Flag) => format!("--{}", setting.flag()),
            Some(Origin::Variable(name)) => name.clone(),
            Some(Origin::File { path, line }) => format!("{}:{line}", file_name(path)),
        }
    }
}

/// Returns a value that is not secret by its rule, without what may be a secret by mistake.
fn shown_value(setting: &Setting, text: &str) -> String {
    match setting.rule {
        Rule::File if text != OFF => file_name(text.as_ref()).escape_debug().to_string(),
        _ => redacted(text).escape_debug().to_string(),
    }
}
