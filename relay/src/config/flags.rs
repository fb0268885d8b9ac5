//! The settings as flags of the command line.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgMatches, Command,
    error::{ContextKind, ContextValue},
    value_parser,
};

use super::{
    environment, file,
    given::{Given, Origin},
    rule::Rule,
    setting::Setting,
    settings::SETTINGS,
};

/// What overrides what; the end of the help text.
pub const PRECEDENCE: &str = "\
A flag overrides an environment variable, which overrides the file, which overrides the default. \
DATABASE_URL and AMQP_URL must be given. A URL on the command line can be seen by every user of the machine: \
prefer the environment or the file.";

/// Gives the program a flag for each setting, and for the file. Every command takes them; the help text of one shows those that
/// [`with_shown`] names.
pub fn with_settings(program: Command) -> Command {
    program.arg(config_file()).args(SETTINGS.iter().map(|setting| flag(setting).hide(true)))
}

/// Has the command's help text show these settings.
pub fn with_shown(command: Command, shows: impl Fn(&Setting) -> bool) -> Command {
    command.args(SETTINGS.iter().filter(|setting| shows(setting)).map(flag))
}

fn config_file() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .global(true)
        .help_heading("Settings")
        .help("TOML file with settings")
        .long_help("TOML file with settings.\n[env: OUTBOX_RELAY_CONFIG]")
}

fn flag(setting: &'static Setting) -> Arg {
    let default = setting.default.map(|value| format!(" [default: {value}]")).unwrap_or_default();
    let allowed = match setting.rule {
        Rule::Switch | Rule::Choice(_) => String::new(), // the placeholder names them
        _ => format!("\n[allowed: {}]", setting.rule.allowed()),
    };
    let long = format!("{}\n[env: {}]{default}{allowed}", setting.text(), setting.variable());
    Arg::new(setting.key)
        .long(setting.flag())
        .value_name(setting.rule.placeholder())
        .global(true)
        .allow_negative_numbers(true) // so that the setting's own range refuses them
        .help_heading(setting.group)
        .help(format!("{}{default}", setting.summary()))
        .long_help(long)
}

/// Reads a command line. An error is the usage error or the help text to print; it shows no password.
pub fn read(program: &mut Command, arguments: impl IntoIterator<Item = OsString>) -> Result<ArgMatches, clap::Error> {
    program.try_get_matches_from_mut(arguments).map_err(without_urls)
}

/// An argument in the wrong place is quoted by clap; a URL would show its password.
fn without_urls(mut error: clap::Error) -> clap::Error {
    let quotes_url = |value: &ContextValue| match value {
        ContextValue::String(text) => text.contains("://") || text.contains("password"),
        ContextValue::Strings(texts) => texts.iter().any(|text| text.contains("://") || text.contains("password")),
        _ => false,
    };
    let kinds: Vec<ContextKind> =
        error.context().filter(|(_, value)| quotes_url(value)).map(|(kind, _)| kind).collect();
    for kind in kinds {
        error.insert(kind, ContextValue::String("(hidden)".to_owned()));
    }
    error
}

/// Takes what the file, the environment and a command's flags give, each overriding the one before. What is wrong with a setting is
/// told by [`Given::resolve`].
pub fn collect(flags: &ArgMatches, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Given {
    let variables: BTreeMap<OsString, OsString> = variables.into_iter().collect();
    let mut given = Given::default();
    if let Some(path) = flags.get_one::<PathBuf>("config").cloned().or_else(|| environment::config_file(&variables)) {
        file::read(&path, &mut given);
    }
    environment::read(&variables, &mut given);
    for setting in SETTINGS {
        if let Some(text) = flags.get_one::<String>(setting.key) {
            given.give(setting, text.clone(), Origin::Flag);
        }
    }
    given
}
