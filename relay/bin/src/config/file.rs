//! Settings from a TOML file: one flat table with the settings' keys.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use outbox_service::{
    redact::{file_name, redacted},
    text_file,
};
use toml::de::{DeTable, DeValue};

use super::{
    raw::{Origin, RawSettings},
    setting::nearest,
    settings::{SETTINGS, by_key},
};

/// Path of the file that packages install.
pub(super) const USUAL: &str = "/etc/outbox-relay.toml";

/// Returns the usual file if it exists and this user may read it: it holds passwords, and belongs to root.
pub(super) fn usual(path: &str) -> Option<PathBuf> {
    std::fs::File::open(path).is_ok().then(|| path.into())
}

/// Reads the file at `path`. Of a parser's error only the message and the line's number are reported: its own rendering
/// quotes the line, which may hold a password.
pub(super) fn read(path: &Path, raw: &mut RawSettings) {
    let text = match text_file::once(path) {
        Ok(text) => text,
        Err(why) => return raw.add_problem(format!("{}: {why}", file_name(path))),
    };
    match DeTable::parse(&text) {
        Ok(table) => take(path, &text, table.get_ref(), raw),
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

fn take(path: &Path, text: &str, table: &DeTable<'_>, raw: &mut RawSettings) {
    for (key, value) in table {
        let line = line_of(text, key.span().start);
        let shown = redacted(key.get_ref()).escape_debug().to_string();
        let place = format!("{}:{line}: {}", file_name(path), shown);
        if let DeValue::Table(_) = value.get_ref() {
            raw.add_problem(format!(
                "{place}: a section: the file is one flat table, so write the settings without [{}]",
                shown
            ));
            continue;
        }
        let Some(setting) = by_key(key.get_ref()) else {
            raw.add_problem(match nearest(key.get_ref(), SETTINGS.iter().map(|setting| setting.key)) {
                Some(meant) => format!("{place}: unknown key: did you mean {meant}?"),
                None => format!("{place}: unknown key: outbox-relay run --help lists the known settings"),
            });
            continue;
        };
        match scalar(value.get_ref()) {
            Some(text) => raw.set(setting, &text, Origin::File { path: path.to_owned(), line }),
            None => raw.add_problem(format!("{place}: not a single value: expected {}", setting.rule.allowed())),
        }
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
        assert_eq!(usual(name), None);
        std::fs::write(&path, "slot = \"shop\"").unwrap();
        assert_eq!(usual(name).as_deref(), Some(&*path));
        std::fs::remove_file(path).unwrap();
    }
}
