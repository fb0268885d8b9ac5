//! The command line, made from the list of settings.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgMatches,
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

/// What the program is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Relay events until told to stop.
    Run,
    /// Create publication and slot.
    Init,
    /// Show the effective settings.
    CheckConfig,
}

impl Command {
    /// All, with their names and what the help text says of them.
    const ALL: [(Self, &str, &str); 3] = [
        (Self::Run, "run", "Relay committed events until SIGTERM or SIGINT; a second signal exits at once"),
        (Self::Init, "init", "Create the publication and the replication slot, and say what was done"),
        (
            Self::CheckConfig,
            "check-config",
            "Print the effective settings and where each comes from, without connecting",
        ),
    ];

    /// Whether the command cannot work without `setting`. A DBA who runs `init` needs no broker.
    pub(super) fn needs(self, setting: &Setting) -> bool {
        self != Self::Init || setting.key != "amqp_url"
    }
}

/// What overrides what; the end of the help text.
pub const PRECEDENCE: &str = "\
A flag overrides an environment variable, which overrides the file, which overrides the default. \
DATABASE_URL and AMQP_URL must be given. A URL on the command line can be seen by every user of the machine: \
prefer the environment or the file.";

/// The program's command line.
pub fn command() -> clap::Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .global(true)
        .help("TOML file with settings")
        .long_help("TOML file with settings.\n[env: OUTBOX_RELAY_CONFIG]");
    clap::Command::new("outbox-relay")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Streams committed outbox events from PostgreSQL to RabbitMQ and writes each verdict back")
        .after_help(PRECEDENCE)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100)
        .subcommands(Command::ALL.map(|(_, name, about)| clap::Command::new(name).about(about)))
        .arg(config)
        .args(SETTINGS.iter().map(flag))
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

/// Reads a command line, and the settings from all places. What is wrong with a setting is told by
/// [`Given::resolve`]. An error is the usage error or the help text to print.
pub fn parse(
    mut command: clap::Command,
    arguments: impl IntoIterator<Item = OsString>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(Command, Given), clap::Error> {
    let matches = command.try_get_matches_from_mut(arguments).map_err(without_urls)?;
    let chosen = matches.subcommand().and_then(|(name, flags)| {
        Command::ALL.into_iter().find(|(_, known, _)| *known == name).map(|(command, ..)| (command, flags))
    });
    match chosen {
        Some((command, flags)) => Ok((command, collect(flags, &variables.into_iter().collect()))),
        None => Err(command.error(clap::error::ErrorKind::MissingSubcommand, "a command is required")),
    }
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

/// Takes what the file, the environment and the flags give, each overriding the one before.
fn collect(flags: &ArgMatches, variables: &BTreeMap<OsString, OsString>) -> Given {
    let mut given = Given::default();
    if let Some(path) = flags.get_one::<PathBuf>("config").cloned().or_else(|| environment::config_file(variables)) {
        file::read(&path, &mut given);
    }
    environment::read(variables, &mut given);
    for setting in SETTINGS {
        if let Some(text) = flags.get_one::<String>(setting.key) {
            given.give(setting, text.clone(), Origin::Flag);
        }
    }
    given
}
