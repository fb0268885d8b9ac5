//! The command line's parser: every command, and which settings its help text shows.

use std::ffi::OsString;

use clap::{FromArgMatches, Subcommand};

use outbox_console::commands::ClientCommand;

use super::{settings, shell, version};
use crate::config::{self, PRECEDENCE, RawSettings, Servers, Setting};

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub(crate) enum Command {
    /// Relay committed events until SIGTERM, SIGINT or SIGHUP; a second SIGTERM or SIGINT exits at once
    Run,
    /// Commands that connect to a server, and end.
    #[command(flatten)]
    ClientCommand(ClientCommand),
    #[allow(missing_docs, reason = "it says at its own place what it does")]
    Config(settings::Options),
    #[allow(missing_docs, reason = "it says at its own place what it does")]
    Completions(shell::Completions),
    #[allow(missing_docs, reason = "it says at its own place what it does")]
    Man(shell::Manual),
    #[allow(missing_docs, reason = "it says at its own place what it does")]
    Version(version::Options),
}

impl Command {
    /// Returns the servers whose addresses the command needs.
    pub(crate) fn servers(&self) -> Servers {
        match self {
            Self::Run | Self::Config(_) | Self::ClientCommand(ClientCommand::Tail(_)) => Servers::All,
            _ => Servers::Database,
        }
    }
}

const ABOUT: &str = "Streams committed outbox events from PostgreSQL to RabbitMQ or Kafka and writes each verdict back";

/// Builds the command line's parser.
pub(crate) fn program() -> clap::Command {
    let program = clap::Command::new("outbox-relay")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(PRECEDENCE)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100);
    // The derived part brings the description of the enum, which `about` replaces.
    let program = Command::augment_subcommands(config::with_settings(program, |_| false)).about(ABOUT).long_about(None);
    program.mut_subcommands(|command| {
        // The flags are added later, and only to the command that is called: thirty flags for each of twelve commands
        // would slow every start down.
        command.defer(|command| match shown(command.get_name()) {
            Shown::All => config::with_settings(command, |_| true),
            Shown::Only(keys) => config::with_settings(command, |setting: &Setting| keys.contains(&setting.key)),
        })
    })
}

enum Shown {
    All,
    Only(&'static [&'static str]),
}

/// Returns the settings that matter to a command.
fn shown(command: &str) -> Shown {
    Shown::Only(match command {
        "run" | "config" => return Shown::All,
        "init" => &["database_url", "application_name", "publication", "slot", "takeover_after", "log_format", "log"],
        "check" => &[
            "database_url",
            "amqp_url",
            "application_name",
            "publication",
            "slot",
            "create_slot",
            "exchange",
            "declare_exchange",
        ],
        "status" => &["database_url", "application_name", "slot"],
        "events" | "replay" | "release" | "purge" => &["database_url"],
        "tail" => &["amqp_url", "exchange"],
        _ => &[],
    })
}

/// Reads a command line, and the settings from all places; [`RawSettings::resolve`] then reports wrong settings. An
/// error is the usage error or the help text to print.
pub(crate) fn read(
    program: &mut clap::Command,
    arguments: impl IntoIterator<Item = OsString>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(Command, RawSettings), clap::Error> {
    let matches = config::read(program, arguments)?;
    let command = Command::from_arg_matches(&matches)?;
    Ok((command, config::collect(&matches, variables)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        program().debug_assert();
    }

    #[test]
    fn the_help_text_says_what_the_program_is_and_what_each_command_does() {
        let help = program().render_long_help().to_string();
        assert!(help.starts_with(ABOUT), "{help}");
        let program = program();
        let mut seen = std::collections::HashSet::new();
        for command in program.get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.split(' ').count() > 4 && seen.insert(about.clone()), "{}: {about:?}", command.get_name());
        }
    }

    #[test]
    fn every_command_but_those_for_the_shell_answers_as_json() {
        for command in program().get_subcommands() {
            let has_json = command.get_arguments().any(|argument| argument.get_id() == "json");
            let needs_none = ["run", "completions", "man"].contains(&command.get_name());
            assert_ne!(has_json, needs_none, "{}", command.get_name());
        }
    }

    #[test]
    fn what_changes_events_can_be_tried_and_asks_unless_told_otherwise() {
        for name in ["replay", "release", "purge"] {
            let program = program();
            let command = program.find_subcommand(name).unwrap();
            for flag in ["dry_run", "yes"] {
                assert!(command.get_arguments().any(|argument| argument.get_id() == flag), "{name} --{flag}");
            }
        }
    }

    #[test]
    fn a_help_text_shows_the_settings_that_matter_to_its_command_and_every_command_takes_all() {
        let mut program = program();
        program.build();
        let help = program.find_subcommand_mut("events").unwrap().render_long_help().to_string();
        assert!(help.contains("--database-url") && !help.contains("--in-flight"), "{help}");
        let arguments = ["outbox-relay", "events", "--in-flight", "5"].map(Into::into);
        assert!(read(&mut self::program(), arguments, []).is_ok());
    }
}
