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

fn table(command: &clap::Command) -> String {
    let mut text = format!("\n{}.\n", command.get_about().unwrap());
    let arguments = own(command);
    if !arguments.is_empty() {
        text.push_str("\n| option | meaning |\n|---|---|\n");
    }
    for argument in arguments {
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
        writeln!(text, "| {short}`{name}` | {}.{default} |", argument.get_help().unwrap()).unwrap();
    }
    text.push('\n');
    text
}

#[test]
fn the_reference_has_every_command_with_its_options_as_they_are() {
    let old = fs::read_to_string(page()).unwrap();
    let mut made = old.clone();
    for command in program().get_subcommands() {
        let begin = begin(command.get_name());
        let (head, rest) = made.split_once(&begin).unwrap_or_else(|| panic!("the page has no {begin}"));
        let (_, tail) = rest.split_once(END).expect("the options have an end");
        made = format!("{head}{begin}{}{END}{tail}", table(command));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(page(), &made).unwrap();
    }
    let stored = fs::read_to_string(page()).unwrap();
    assert_eq!(stored, made, "run: UPDATE_DOCS=1 cargo test -p outbox-relay reference");
}
