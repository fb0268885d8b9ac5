//! Keeps the reference pages and the list of settings the same. After a change of the list, `UPDATE_DOCS=1 cargo test
//! -p outbox-relay reference` writes the pages anew.

use std::{fmt::Write, fs, path::PathBuf};

use super::{SETTINGS, Servers, Setting, file, raw, table};
use crate::config::{resolve::BROKERS, units::TIME_UNITS};

const BEGIN: &str = "<!-- settings: made from the code, see relay/bin/src/config/tests/reference.rs -->\n";
const END: &str = "<!-- end of settings -->\n";

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Returns the stored page; replaces it first if `UPDATE_DOCS` is set.
fn stored(name: &str, made: &str) -> String {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(page(name), made).unwrap();
    }
    fs::read_to_string(page(name)).unwrap_or_default()
}

/// Returns the allowed values. What must be given cannot be `off`.
fn allowed(setting: &'static Setting) -> String {
    let allowed = setting.name().allowed();
    let needed = allowed.strip_prefix("off, or ").filter(|_| setting.default.is_none());
    needed.unwrap_or(&allowed).to_owned()
}

/// Returns the settings, each with its group where a new group begins.
fn grouped() -> impl Iterator<Item = (Option<&'static str>, &'static Setting)> {
    let mut current = "";
    SETTINGS.iter().map(move |setting| {
        let begins = current != setting.group;
        current = setting.group;
        (begins.then_some(setting.group), setting)
    })
}

/// Returns the allowed values as the page has them: it says once what a boolean is, and which units there are.
fn briefly_allowed(setting: &'static Setting) -> String {
    let allowed = allowed(setting);
    let allowed = if allowed == "true or false" { String::new() } else { allowed };
    let units = [format!(" ({TIME_UNITS})"), " (B, KiB, MiB or GiB)".to_owned()];
    let mut brief = units.iter().find_map(|units| allowed.strip_suffix(units)).unwrap_or(&allowed).to_owned();
    for kind in ["a time from ", "a size from ", "a whole number from "] {
        brief = brief.replace(kind, "");
    }
    match brief.rsplit_once("a URL such as ") {
        Some((before, url)) => format!("{before}`{url}`"),
        None => brief,
    }
}

fn reference() -> String {
    let mut text = String::new();
    for (group, setting) in grouped() {
        if let Some(group) = group {
            write!(text, "\n### {group}\n\nTable `[{}]` of the file.\n\n", table(group)).unwrap();
        }
        let needed = if BROKERS.contains(&setting.key) { "one broker is required" } else { "required" };
        let default = setting.default.map_or(needed.to_owned(), |value| format!("`{value}`"));
        let allowed = Some(briefly_allowed(setting)).filter(|allowed| !allowed.is_empty());
        let allowed = allowed.map(|allowed| format!(" ({allowed})")).unwrap_or_default();
        writeln!(text, "- `{}`: {default}{allowed}. {}", setting.key, setting.text()).unwrap();
    }
    text.push('\n');
    text
}

fn example() -> String {
    let mut text = "\
# Settings of outbox-relay, with their defaults. Use it by: outbox-relay run --config outbox-relay.toml
# A setting may also stand in the table of its group, such as [rabbitmq]. Where it says so, the setting with _file at its
# end names a file that holds the value.
# A flag (--max-attempts 5) or a variable (OUTBOX_RELAY_MAX_ATTEMPTS=5) overrides what stands here.
# A file with passwords in it should be readable by the relay's user only.
"
    .to_owned();
    for (group, setting) in grouped() {
        if let Some(group) = group {
            write!(text, "\n\n## {group}\n").unwrap();
        }
        text.push('\n');
        for line in setting.help {
            writeln!(text, "# {}", line.trim()).unwrap();
        }
        if let Some(file) = setting.file_name() {
            writeln!(text, "# In a file: {}.", file.key()).unwrap();
        } else if !setting.is_secret {
            writeln!(text, "# Allowed: {}.", allowed(setting)).unwrap();
        }
        writeln!(text, "#{} = {}", setting.key, value(setting)).unwrap();
    }
    text
}

fn value(setting: &'static Setting) -> String {
    let form = || allowed(setting).trim_start_matches("a URL such as ").to_owned();
    match setting.default {
        Some(default) if default.parse::<i64>().is_ok() || default.parse::<bool>().is_ok() => default.to_owned(),
        Some(default) => format!("{default:?}"),
        None => format!("{:?}", form()),
    }
}

#[test]
fn the_reference_has_every_setting_as_it_is() {
    let old = fs::read_to_string(page("configuration.md")).unwrap();
    let (head, rest) = old.split_once(BEGIN).expect("the page has a place for the settings");
    let (_, tail) = rest.split_once(END).expect("that place has an end");
    let made = format!("{head}{BEGIN}{}{END}{tail}", reference());
    assert_eq!(stored("configuration.md", &made), made, "run: UPDATE_DOCS=1 cargo test -p outbox-relay reference");
}

#[test]
fn the_example_file_has_every_setting_as_it_is() {
    let made = example();
    assert_eq!(
        stored("outbox-relay.example.toml", &made),
        made,
        "run: UPDATE_DOCS=1 cargo test -p outbox-relay reference"
    );
}

#[test]
fn the_example_file_with_every_line_in_force_means_the_defaults() {
    let text = example();
    // Events go to one broker.
    let lines = text.lines().filter(|line| !line.starts_with("#kafka_url = "));
    let in_force = lines.map(|line| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest,
        _ => line,
    });
    let file = file(&in_force.collect::<Vec<_>>().join("\n"));
    let config = raw(&["run", "--config", file.path()], &[]).resolve(Servers::All).unwrap();
    let urls = [
        ("DATABASE_URL", "postgres://user:password@host:5432/database"),
        ("AMQP_URL", "amqp://user:password@host:5672/vhost"),
    ];
    let defaults = raw(&["run"], &urls).resolve(Servers::All).unwrap();
    assert_eq!(format!("{config:?}"), format!("{defaults:?}"));
}
