//! The settings as flags of the command line.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgMatches, Command,
    error::{ContextKind, ContextValue},
    value_parser,
};
use outbox_service::redact::{HIDDEN, redacted};

use super::{
    environment,
    file::{self, Usual},
    raw::{Origin, RawSettings},
    retired::RETIRED,
    setting::Setting,
    settings::SETTINGS,
};

/// Which source overrides which; the end of the help text.
pub(crate) const PRECEDENCE: &str = "\
A flag overrides an environment variable, which overrides the file, which overrides the default. \
DATABASE_URL and AMQP_URL or OUTBOX_RELAY_KAFKA_URL must be given, or files that hold them (DATABASE_URL_FILE and so \
on). Every user of the machine can see a URL on the command line: prefer the environment or a file.";

/// Adds a flag for each setting and for the file to a command, or to the program before its command. The help text
/// shows those that `shows` selects.
///
/// clap's global flags are not used, because clap would copy them to every command at each start.
pub(crate) fn with_settings(command: Command, shows: impl Fn(&Setting) -> bool) -> Command {
    let flags = SETTINGS.iter().map(|setting| flag(setting).hide(!shows(setting)));
    let files = SETTINGS.iter().filter_map(Setting::file_name).map(|name| bare_flag(name.key(), name.placeholder()));
    let retired = RETIRED.iter().map(|retired| bare_flag(retired.key.to_owned(), "VALUE"));
    command.arg(config_file()).args(flags).args(files.chain(retired))
}

/// Returns a flag that the help text does not list: another flag's text names it, or it has no effect.
fn bare_flag(key: String, placeholder: &'static str) -> Arg {
    let flag = key.replace('_', "-");
    Arg::new(key).long(flag).value_name(placeholder).allow_negative_numbers(true).hide(true)
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
    let name = setting.name();
    // A placeholder that lists the words says what is allowed.
    let allowed =
        if name.placeholder().contains('|') { String::new() } else { format!("\n[allowed: {}]", name.allowed()) };
    let file = setting.file_name().map(|file| format!("\n[in a file: --{} FILE, {}]", file.flag(), file.variable()));
    let file = file.unwrap_or_default();
    let long = format!("{}\n[env: {}]{default}{file}{allowed}", setting.text(), name.variable());
    let argument = Arg::new(setting.key);
    // A switch that is off by default is turned on by the flag alone, so the next argument is not its value.
    let argument = match setting.default {
        Some("false") => argument.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => argument,
    };
    argument
        .long(name.flag())
        .value_name(name.placeholder())
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
    let mut raw = RawSettings::default();
    let file = places.iter().find_map(|flags| flags.get_one::<PathBuf>("config").cloned());
    match file.or_else(|| environment::config_file(&variables)).map_or_else(|| file::usual(file::USUAL), Usual::Open) {
        Usual::Open(path) => file::read(&path, &mut raw),
        Usual::Closed(path) => raw.has_closed_file(&path),
        Usual::Absent => {}
    }
    environment::read(&variables, &mut raw);
    let text = |key: &str| places.iter().find_map(|flags| flags.get_one::<String>(key));
    for name in SETTINGS.iter().flat_map(Setting::names) {
        if let Some(text) = text(&name.key()) {
            raw.set(name, text, Origin::Flag);
        }
    }
    for retired in RETIRED.iter().filter(|retired| text(retired.key).is_some()) {
        raw.add_retired(retired, &Origin::Flag);
    }
    raw
}
