//! Keeps docs/command-line.md and the command line the same. After a change of either, `UPDATE_DOCS=1 cargo test -p
//! outbox-relay reference` writes the page anew.

use std::{fmt::Write, fs, path::PathBuf};

use clap::Arg;

use super::program;
use crate::config::{RETIRED, SETTINGS, Setting};

const END: &str = "<!-- end of options -->\n";

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-line.md")
}

fn begin(command: &str) -> String {
    format!("<!-- options of {command}: made from the code, see relay/bin/src/command/reference.rs -->\n")
}

/// Returns the command's own arguments, without the settings.
fn own(command: &clap::Command) -> Vec<&Arg> {
    let names = SETTINGS.iter().flat_map(Setting::names).map(|name| name.key());
    let settings: Vec<String> = names.chain(RETIRED.iter().map(|retired| retired.key.to_owned())).collect();
    let is_setting =
        |argument: &Arg| argument.get_id() == "config" || settings.iter().any(|key| argument.get_id() == key.as_str());
    command.get_arguments().filter(|argument| !is_setting(argument) && argument.get_id() != "help").collect()
}

/// Returns an argument's name, such as `--limit`, and the line that the page has about it.
fn described(argument: &Arg) -> (String, String) {
    let value = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let value = value.filter(|_| argument.get_action().takes_values()).unwrap_or_default();
    let name = match argument.get_long() {
        Some(long) => format!("--{long} {value}").trim_end().to_owned(),
        None => value,
    };
    let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let default: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default = if default.is_empty() || !argument.get_action().takes_values() {
        String::new()
    } else {
        format!(" Default: `{}`.", default.join(", "))
    };
    let line = format!("- {short}`{name}`: {}.{default}\n", argument.get_help().unwrap());
    (argument.get_long().map_or(name, |long| format!("--{long}")), line)
}

/// Returns the lines that three commands or more have, in the order of the commands.
fn shared(program: &clap::Command) -> Vec<String> {
    let all: Vec<String> = program.get_subcommands().flat_map(own).map(|argument| described(argument).1).collect();
    let mut shared: Vec<String> = Vec::new();
    for line in &all {
        if all.iter().filter(|other| *other == line).count() > 2 && !shared.contains(line) {
            shared.push(line.clone());
        }
    }
    shared
}

/// The options of one command: those that it alone has, and the names of the others.
fn options(command: &clap::Command, shared: &[String]) -> String {
    let mut text = format!("\n{}.\n", command.get_about().unwrap());
    let (mut lines, mut names) = (String::new(), Vec::new());
    for argument in own(command) {
        let (name, line) = described(argument);
        if shared.contains(&line) {
            names.push(name);
        } else {
            lines.push_str(&line);
        }
    }
    if !names.is_empty() {
        writeln!(lines, "- [shared](#shared-options): `{}`", names.join(" ")).unwrap();
    }
    if !lines.is_empty() {
        write!(text, "\n{lines}").unwrap();
    }
    text.push('\n');
    text
}

/// Replaces what the page has between the two comments.
fn replace(page: &str, begin: &str, text: &str) -> String {
    let (head, rest) = page.split_once(begin).unwrap_or_else(|| panic!("the page has no {begin}"));
    let (_, tail) = rest.split_once(END).expect("the options have an end");
    format!("{head}{begin}{text}{END}{tail}")
}

#[test]
fn the_reference_has_every_command_with_its_options_as_they_are() {
    let old = fs::read_to_string(page()).unwrap();
    let program = program();
    let shared = shared(&program);
    let lines = format!("\n{}\n", shared.concat());
    let mut made = replace(&old, &begin("several commands"), &lines);
    for command in program.get_subcommands() {
        made = replace(&made, &begin(command.get_name()), &options(command, &shared));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(page(), &made).unwrap();
    }
    let stored = fs::read_to_string(page()).unwrap();
    assert_eq!(stored, made, "run: UPDATE_DOCS=1 cargo test -p outbox-relay reference");
}
