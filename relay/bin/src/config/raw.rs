//! The settings as they were given, each with its origin.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use outbox_service::{
    redact::{HIDDEN, file_name, holds_login},
    text_file::{self, QUOTED, is_quoted},
};

use super::{
    kind::{File, Kind, OFF, expected},
    retired::Retired,
    setting::{Name, Setting},
};

/// The text of every setting that was given, with its origin.
#[derive(Default)]
pub(crate) struct RawSettings {
    values: HashMap<String, RawValue>,
    /// One line for each input that could not be understood.
    pub(super) problems: Vec<String>,
    /// Settings of earlier versions that were given, each with its origin.
    retired: Vec<(&'static Retired, String)>,
    /// Where else than in the environment a missing setting was looked for, as the end of the line that names it.
    looked_in: String,
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

impl Origin {
    /// Returns the place in the form in which a setting with this flag is given there.
    fn place(&self, flag: &str) -> String {
        match self {
            Self::Flag => format!("--{flag}"),
            Self::Variable(name) => name.clone(),
            Self::File { path, line } => format!("{}:{line}", file_name(path)),
        }
    }
}

impl RawSettings {
    /// Sets a value, overriding an earlier one. White space around it, such as a file's last line end, is removed:
    /// nobody means it.
    pub(super) fn set(&mut self, name: Name, text: &str, origin: Origin) {
        self.values.insert(name.key(), RawValue { text: text.trim().to_owned(), origin });
    }

    /// Notes a setting of an earlier version, which has no effect. Its value, which may be secret, is not kept.
    pub(super) fn add_retired(&mut self, retired: &'static Retired, origin: &Origin) {
        self.retired.push((retired, origin.place(&retired.key.replace('_', "-"))));
    }

    /// The settings are in this file as well.
    pub(super) fn has_file(&mut self, path: &Path) {
        self.looked_in = format!(", and {} does not have it", file_name(path));
    }

    /// This file, which may hold the settings, cannot be read or understood; a problem says why.
    pub(super) fn has_unread_file(&mut self, path: &Path) {
        self.looked_in = format!(", and {}, which may have it, was not read", file_name(path));
    }

    /// This file, which may hold the settings, is closed to the user who runs the command.
    pub(super) fn has_closed_file(&mut self, path: &Path) {
        self.looked_in = format!(", and you may not read {}, which may have it: try sudo", file_name(path));
    }

    /// Adds a line about an input that cannot be understood.
    pub(super) fn add_problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Returns the settings of earlier versions that were given, each once, with its last origin.
    pub(crate) fn retired(&self) -> impl Iterator<Item = (&'static Retired, &str)> {
        let last = |(at, (retired, _)): &(usize, &(&'static Retired, String))| {
            !self.retired.iter().skip(at + 1).any(|(later, _)| later.key == retired.key)
        };
        self.retired.iter().enumerate().filter(last).map(|(_, (retired, origin))| (*retired, origin.as_str()))
    }

    /// Returns the checked value of a setting; if the value is bad, adds a line to `problems`. A file that holds the
    /// value is read now if it is `needed`.
    pub(super) fn value<K: Kind>(
        &self,
        setting: &'static Setting,
        needed: bool,
        problems: &mut Vec<String>,
    ) -> Option<K::Value> {
        let name = setting.name();
        let given = self.values.get(setting.key).map(|raw| raw.text.as_str());
        let file = self.file(setting).map(|(name, text)| (name, read::<File>(text)));
        let (reported_as, value) = match (given, file) {
            (_, Some((file, Err(why)))) => (file, Err(why)),
            (Some(text), Some((file, _))) if text != OFF => {
                (name, Err(format!("{} is given, too: leave one of them out", self.shown(file))))
            }
            (_, Some((file, Ok(path)))) => (file, K::in_file(path, needed)),
            (None, None) if setting.default.is_none() => match K::absent() {
                Some(value) => return Some(value),
                None => (name, Err(expected::<K>())),
            },
            (text, None) => (name, read::<K>(text.or(setting.default).unwrap_or_default())),
        };
        value.map_err(|why| problems.push(format!("{}: {why}", self.shown(reported_as)))).ok()
    }

    /// Returns the name of the file that holds the value of this setting, if one is given, and as what it was given.
    pub(super) fn file(&self, setting: &'static Setting) -> Option<(Name, &str)> {
        let name = setting.file_name()?;
        self.values.get(&name.key()).map(|raw| (name, raw.text.as_str())).filter(|(_, text)| *text != OFF)
    }

    /// Returns the text of a setting that is in no file: as it was given, or its default.
    pub(super) fn text(&self, setting: &Setting) -> Option<&str> {
        self.values.get(setting.key).map(|raw| raw.text.as_str()).or(setting.default)
    }

    /// Whether something else than the default was given.
    pub(super) fn is_changed(&self, setting: &Setting) -> bool {
        self.values.get(setting.key).is_some_and(|raw| Some(&*raw.text) != setting.default)
    }

    /// Returns the name under which a setting without a default was given; `None` if it is left out.
    pub(super) fn given_as(&self, setting: &'static Setting) -> Option<Name> {
        let has_text = self.text(setting).is_some_and(|text| text != OFF);
        has_text.then(|| setting.name()).or_else(|| self.file(setting).map(|(name, _)| name))
    }

    /// Returns a setting with its value in the form of its origin: as a flag, a variable or a line of the file.
    pub(super) fn shown(&self, name: Name) -> String {
        let Some(RawValue { text, origin }) = self.values.get(&name.key()) else {
            return match (name.setting.default, name.setting.file_name()) {
                (Some(default), _) => format!("{} = {default} (default)", name.key()),
                (None, Some(file)) => {
                    format!("neither {} nor {} is set{}", name.variable(), file.variable(), self.looked_in)
                }
                (None, None) => format!("{} is not set{}", name.variable(), self.looked_in),
            };
        };
        let text = if name.is_secret() { HIDDEN.to_owned() } else { shown(name, text) };
        let place = origin.place(&name.flag());
        match origin {
            Origin::Flag => format!("{place} {text}"),
            Origin::Variable(_) => format!("{place}={text}"),
            Origin::File { .. } => format!("{place}: {} = {text}", name.key()),
        }
    }

    /// Returns the value without its secrets.
    pub(super) fn harmless(&self, name: Name) -> String {
        match self.file(name.setting) {
            Some((_, path)) if !name.is_file => {
                text_file::secret(path.as_ref()).map_or_else(|_| HIDDEN.to_owned(), |text| name.shown(&text))
            }
            Some((_, path)) => shown(name, path),
            None => shown(name, self.text(name.setting).unwrap_or_default()),
        }
    }

    /// Returns where the value was given.
    pub(super) fn origin(&self, setting: &'static Setting) -> String {
        let name = self.file(setting).map_or_else(|| setting.name(), |(file, _)| file);
        let origin = self.values.get(&name.key()).map(|raw| raw.origin.place(&name.flag()));
        origin.unwrap_or_else(|| "default".to_owned())
    }
}

/// Reads a value as somebody wrote it. The error says what is wrong, and contains nothing of a secret.
fn read<K: Kind>(text: &str) -> Result<K::Value, String> {
    if is_quoted(text) {
        return Err(QUOTED.to_owned());
    }
    // A login would be shown if it were accepted: in the log, in pg_stat_activity, to the broker.
    if !K::IS_SECRET && holds_login(text) {
        let why = "it looks like a login with a password, which has no place here";
        return Err(format!("{why}: {}", expected::<K>()));
    }
    K::parse(text)
}

/// Returns a value without what may be a secret; nothing for no value.
fn shown(name: Name, text: &str) -> String {
    if text.is_empty() { String::new() } else { name.shown(text) }
}
