//! Settings from a TOML file: the settings' keys at its top, or each in the table of its group.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use outbox_service::{
    redact::{file_name, redacted},
    text_file,
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    raw::{Origin, RawSettings},
    retired,
    setting::{Name, Setting, nearest, table},
    settings::{SETTINGS, by_key},
};

/// Path of the file that packages install.
pub(super) const USUAL: &str = "/etc/outbox-relay.toml";

/// The usual file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Usual {
    /// It is there, and this user may read it.
    Open(PathBuf),
    /// It is there, and this user may not read it: it holds passwords, and belongs to root.
    Closed(PathBuf),
    Absent,
}

/// Looks for the usual file at `path`.
pub(super) fn usual(path: &str) -> Usual {
    match std::fs::File::open(path) {
        Ok(_) => Usual::Open(path.into()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Usual::Closed(path.into()),
        Err(_) => Usual::Absent,
    }
}

/// Reads the file at `path`. Of a parser's error only the message and the line's number are reported: its own rendering
/// quotes the line, which may hold a password.
pub(super) fn read(path: &Path, raw: &mut RawSettings) {
    raw.has_unread_file(path); // until it is understood
    let text = match text_file::once(path) {
        Ok(text) => text,
        Err(why) => return raw.add_problem(format!("{}: {why}", file_name(path))),
    };
    match DeTable::parse(&text) {
        Ok(table) => {
            raw.has_file(path);
            Reading { path, text: &text, raw, seen: BTreeMap::new() }.take(table.get_ref());
        }
        Err(error) => {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            let place = format!("{}:{line}", file_name(path));
            raw.add_problem(match key_without_value(&text, line) {
                Some(key) => {
                    format!("{place}: {key}: there is no value: write \"\" for an empty one, or leave the line out")
                }
                None => format!("{place}: not TOML: {}", error.message()),
            });
        }
    }
}

/// A file that is being read.
struct Reading<'a> {
    path: &'a Path,
    text: &'a str,
    raw: &'a mut RawSettings,
    /// The settings so far, with their lines.
    seen: BTreeMap<String, usize>,
}

impl Reading<'_> {
    /// Takes the settings at the top of the file, and those in its tables.
    fn take(&mut self, file: &DeTable<'_>) {
        for (key, value) in file {
            match value.get_ref() {
                DeValue::Table(settings) if is_table(key.get_ref()) => {
                    for (setting, value) in settings {
                        self.setting(Some(key.get_ref()), setting, value);
                    }
                }
                DeValue::Table(_) => {
                    let tables = groups().map(|group| format!("[{}]", table(group))).collect::<Vec<_>>().join(", ");
                    self.problem(key, None, &format!("unknown table: the tables are {tables}"));
                }
                _ if is_table(key.get_ref()) => {
                    self.problem(
                        key,
                        None,
                        &format!("it is a table: write [{}], and its settings below it", key.get_ref()),
                    );
                }
                _ => self.setting(None, key, value),
            }
        }
    }

    /// Takes one setting, which stands in this table, or at the top of the file.
    fn setting(&mut self, within: Option<&str>, key: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let line = line_of(self.text, key.span().start);
        let origin = Origin::File { path: self.path.to_owned(), line };
        let Some(name) = by_key(key.get_ref()) else {
            return match retired::by_key(key.get_ref()) {
                Some(retired) => self.raw.add_retired(retired, &origin),
                None => self.problem(key, within, &unknown(key.get_ref())),
            };
        };
        let own = table(name.setting.group);
        if within.is_some_and(|within| within != own) {
            return self.problem(key, within, &format!("it belongs to [{own}], or to the top of the file"));
        }
        if let Some(earlier) = self.seen.insert(name.key(), line) {
            return self.problem(key, within, &format!("line {earlier} has it, too: leave one of them out"));
        }
        match scalar(value.get_ref()) {
            Some(text) => self.raw.set(name, &text, origin),
            None => self.problem(key, within, &format!("not a single value: expected {}", name.allowed())),
        }
    }

    fn problem(&mut self, key: &Spanned<Cow<'_, str>>, within: Option<&str>, why: &str) {
        let line = line_of(self.text, key.span().start);
        let within = within.map(|within| format!("{within}.")).unwrap_or_default();
        let shown = redacted(key.get_ref()).escape_debug().to_string();
        self.raw.add_problem(format!("{}:{line}: {within}{shown}: {why}", file_name(self.path)));
    }
}

/// Returns the groups of settings, in their order.
fn groups() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    SETTINGS.iter().map(|setting| setting.group).filter(move |group| std::mem::replace(&mut last, group) != *group)
}

fn is_table(key: &str) -> bool {
    groups().any(|group| table(group) == key)
}

fn unknown(key: &str) -> String {
    match nearest(key, SETTINGS.iter().flat_map(Setting::names).map(Name::key)) {
        Some(meant) => format!("unknown key: did you mean {meant}?"),
        None => "unknown key: outbox-relay run --help lists the known settings".to_owned(),
    }
}

/// Returns the value as it would be written on a command line; `None` for an array or a table.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(
            i64::from_str_radix(number.as_str(), number.radix()).map_or_else(|_| number.to_string(), |n| n.to_string()),
        ),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(yes) => Some(yes.to_string()),
        DeValue::Datetime(time) => Some(time.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Returns the key of a line that has no value, only perhaps a comment, behind its `=`. A value, which may be secret,
/// is never returned.
fn key_without_value(text: &str, line: usize) -> Option<Cow<'_, str>> {
    let (key, value) = text.lines().nth(line - 1)?.split_once('=')?;
    let value = value.trim();
    (value.is_empty() || value.starts_with('#')).then(|| redacted(key.trim()))
}

/// Returns the number of the line (1 is the first) that holds the byte at `offset`.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_file_counts_where_it_can_be_read() {
        let path = std::env::temp_dir().join(format!("outbox-usual-{}.toml", std::process::id()));
        let name = path.to_str().unwrap();
        assert_eq!(usual(name), Usual::Absent);
        std::fs::write(&path, "slot = \"shop\"").unwrap();
        assert_eq!(usual(name), Usual::Open(path.clone()));
        std::fs::remove_file(path).unwrap();
    }
}
