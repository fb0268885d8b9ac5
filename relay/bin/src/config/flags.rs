//! The settings as flags of the command line.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgMatches, Command,
    error::{ContextKind, ContextValue},
    value_parser,
};
use outbox_service::redact::{HIDDEN, redacted};

use super::{
    environment, file,
    raw::{Origin, RawSettings},
    rule::Rule,
    setting::Setting,
    settings::SETTINGS,
};

/// Which source overrides which; the end of the help text.
pub(crate) const PRECEDENCE: &str = "\
A flag overrides an environment variable, which overrides the file, which overrides the default. \
DATABASE_URL and AMQP_URL must be given, or DATABASE_URL_FILE and AMQP_URL_FILE, files that hold them. A URL on the command line can \
be seen by every user of the machine: prefer the environment or a file.";

/// Adds a flag for each setting and for the file to a command, or to the program before its command. The help text
/// shows those that `shows` selects.
///
/// clap's global flags are not used, because clap would copy them to every command at each start.
pub(crate) fn with_settings(command: Command, shows: impl Fn(&Setting) -> bool) -> Command {
    command.arg(config_file()).args(SETTINGS.iter().map(|setting| flag(setting).hide(!shows(setting))))
}

fn config_file() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help_heading("Settings")
        .help("TOML file with settings")
        .long_help("TOML file with settings.\n[env: OUTBOX_RELAY_CONFIG] [default: /etc/outbox-relay.toml, if it is there and may be read]")
}

fn flag(setting: &'static Setting) -> Arg {
    let default = setting.default.map(|value| format!(" [default: {value}]")).unwrap_or_default();
    let allowed = match setting.rule {
        Rule::Switch | Rule::Choice(_) => String::new(), // the placeholder lists the words
        _ => format!("\n[allowed: {}]", setting.rule.allowed()),
    };
    let long = format!("{}\n[env: {}]{default}{allowed}", setting.text(), setting.variable());
    let argument = Arg::new(setting.key);
    // A switch that is off by default is turned on by the flag alone, so the next argument is not its value.
    let argument = match (&setting.rule, setting.default) {
        (Rule::Switch, Some("false")) => argument.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => argument,
    };
    argument
        .long(setting.flag())
        .value_name(setting.rule.placeholder())
        .allow_negative_numbers(true) // so that the setting's own range rejects them
        .help_heading(setting.group)
        .help(format!("{}{default}", setting.summary()))
        .long_help(long)
}

/// Reads a command line. An error is the usage error or the help text to print; it shows no secret.
pub(crate) fn read(
    program: &mut Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, clap::Error> {
    program.try_get_matches_from_mut(arguments).map_err(without_secrets)
}

/// Removes the argument that clap quotes when it stands in the wrong place: it could be a secret.
fn without_secrets(mut error: clap::Error) -> clap::Error {
    let is_secret = |text: &String| redacted(text) != *text;
    let quotes_secret = |value: &ContextValue| match value {
        ContextValue::String(text) => is_secret(text),
        ContextValue::Strings(texts) => texts.iter().any(is_secret),
        _ => false,
    };
    let kinds: Vec<ContextKind> =
        error.context().filter(|(_, value)| quotes_secret(value)).map(|(kind, _)| kind).collect();
    for kind in kinds {
        error.insert(kind, ContextValue::String(HIDDEN.to_owned()));
    }
    error
}

/// Collects settings from the file, the environment, and the flags before and behind the command, each overriding the
/// one before. [`RawSettings::resolve`] then reports wrong settings.
pub(crate) fn collect(flags: &ArgMatches, variables: impl IntoIterator<Item = (OsString, OsString)>) -> RawSettings {
    let variables: BTreeMap<OsString, OsString> = variables.into_iter().collect();
    let places: Vec<&ArgMatches> =
        flags.subcommand().map(|(_, behind)| behind).into_iter().chain(std::iter::once(flags)).collect();
    let mut raw = RawSettings::of(SETTINGS);
    let file = places.iter().find_map(|flags| flags.get_one::<PathBuf>("config").cloned());
    if let Some(path) = file.or_else(|| environment::config_file(&variables)).or_else(|| file::usual(file::USUAL)) {
        file::read(&path, &mut raw);
    }
    environment::read(&variables, &mut raw);
    for setting in SETTINGS {
        if let Some(text) = places.iter().find_map(|flags| flags.get_one::<String>(setting.key)) {
            raw.set(setting, text, Origin::Flag);
        }
    }
    raw
}
