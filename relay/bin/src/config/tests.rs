//! Promises about settings as a whole, and helpers that their tests share.

mod precedence;
mod reference;
mod refusals;
mod retired;
mod secret_files;
mod secrets;
mod sinks;
mod tables;
mod unknown;

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::{Config, RawSettings, SETTINGS, Servers, Setting, collect, read, setting::table, with_settings};

const PASSWORD: &str = "hunter2";
const URLS: [(&str, &str); 2] =
    [("DATABASE_URL", "postgres://relay:hunter2@db/shop"), ("AMQP_URL", "amqp://relay:hunter2@mq/shop")];

/// A file that is deleted when the test ends.
struct TempFile(PathBuf);

fn file(text: &str) -> TempFile {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("outbox-relay-{}-{}.toml", std::process::id(), NEXT.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    fs::write(&path, text).unwrap();
    TempFile(path)
}

impl TempFile {
    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A program with one command.
fn program() -> clap::Command {
    let run = with_settings(clap::Command::new("run"), |_| true);
    let program = with_settings(clap::Command::new("outbox-relay"), |_| false);
    program.max_term_width(100).subcommand_required(true).subcommand(run)
}

fn help() -> String {
    let mut program = program();
    program.build();
    program.find_subcommand_mut("run").unwrap().render_long_help().to_string()
}

fn try_raw(arguments: &[&str], variables: &[(&str, &str)]) -> Result<RawSettings, clap::Error> {
    let arguments = ["outbox-relay"].iter().chain(arguments).map(Into::into);
    let matches = read(&mut program(), arguments)?;
    Ok(collect(&matches, variables.iter().map(|(name, value)| (name.into(), value.into()))))
}

fn raw(arguments: &[&str], variables: &[(&str, &str)]) -> RawSettings {
    try_raw(arguments, variables).unwrap()
}

/// Resolves flags and variables, together with the two URLs.
fn resolve(flags: &[&str], variables: &[(&str, &str)]) -> Result<Config, String> {
    let arguments: Vec<&str> = ["run"].iter().chain(flags).copied().collect();
    let variables: Vec<_> = URLS.iter().chain(variables).copied().collect();
    raw(&arguments, &variables).resolve(Servers::All).map_err(|invalid| invalid.to_string())
}

fn refusal(flags: &[&str], variables: &[(&str, &str)]) -> String {
    resolve(flags, variables).unwrap_err()
}

#[test]
fn the_help_text_groups_the_settings_and_names_variable_default_and_range() {
    program().debug_assert();
    let help = help();
    for group in ["PostgreSQL:", "RabbitMQ:", "Publishing:", "Retrying:", "Running:", "Deletion:", "Watching:"] {
        assert!(help.contains(group), "{group}");
    }
    for setting in SETTINGS {
        let (name, flag) = (setting.name(), format!("--{}", setting.name().flag()));
        assert!([" <", "[=<"].iter().any(|value| help.contains(&format!("{flag}{value}"))), "{}", setting.key);
        assert!(help.contains(&format!("[env: {}]", name.variable())), "{}", setting.key);
        if let Some(file) = setting.file_name() {
            // A narrow terminal's help text breaks lines.
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            let compact = format!("[in a file: --{} FILE, {}]", file.flag(), file.variable());
            assert_eq!(help.matches(&compact).count(), 1, "{compact}");
            assert_eq!(help.matches(&format!("--{}", file.flag())).count(), 1, "{compact}");
        }
    }
    assert!(help.contains("[default: 1000]"));
}
