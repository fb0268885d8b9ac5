//! What was given for each setting, and where.

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
    /// What there is to set.
    settings: &'static [Setting],
    values: HashMap<&'static str, RawValue>,
    /// What could not be understood, a line each.
    pub(super) problems: Vec<String>,
}

/// A value before it is checked. It may be a secret: no `Debug`.
struct RawValue {
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

impl RawSettings {
    /// Nothing of these settings, yet.
    pub(super) fn of(settings: &'static [Setting]) -> Self {
        Self { settings, values: HashMap::new(), problems: Vec::new() }
    }

    /// Takes a value; it overrides one given before. White space around it, such as a line's end from a file, is nobody's intention.
    pub(super) fn set(&mut self, setting: &'static Setting, text: &str, origin: Origin) {
        self.values.insert(setting.key, RawValue { text: text.trim().to_owned(), origin });
    }

    /// Takes note of something that cannot be understood.
    pub(super) fn add_problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// The checked value of a setting; when it is bad, `problems` grows by a line.
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
            // The name of its file is bad, which is said of that setting.
            (None, None, None) if self.names_file_of(setting) => return None,
            (None, None, None) => (setting, Err(format!("expected {}", setting.rule.allowed()))),
        };
        read.map_err(|why| problems.push(format!("{}: {why}", self.shown(reported_as)))).ok()
    }

    /// The setting by which a file was named that holds the value of this one, and the file.
    fn file_of(&self, setting: &Setting) -> Option<(&'static Setting, PathBuf)> {
        let file = self.settings.iter().find(|other| other.is_file_of(setting))?;
        let path = &self.values.get(file.key)?.text;
        (path != OFF && file.rule.takes(path)).then(|| (file, path.into()))
    }

    /// Whether something is given as the name of the file with this value.
    fn names_file_of(&self, setting: &Setting) -> bool {
        let file = self.settings.iter().find(|other| other.is_file_of(setting));
        let file = file.and_then(|file| self.values.get(file.key));
        file.is_some_and(|raw| raw.text != OFF)
    }

    /// A setting with its value, as it is written where it stands.
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

    /// The value as it may be shown.
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

    /// Where the value stands.
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

/// A value that is no secret by its rule, and may be one by mistake.
fn shown_value(setting: &Setting, text: &str) -> String {
    match setting.rule {
        Rule::File if text != OFF => file_name(text.as_ref()).escape_debug().to_string(),
        _ => redacted(text).escape_debug().to_string(),
    }
}
