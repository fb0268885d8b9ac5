//! The program as it is started: help, usage errors, exit codes, streams.

use std::process::{Command, Output};

fn outbox_relay(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outbox-relay"))
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn help_shows_the_settings_but_no_value_of_the_environment() {
    let help = outbox_relay(&["--help"], &[("DATABASE_URL", "postgres://relay:hunter2@db/shop")]);
    assert_eq!(help.status.code(), Some(0));
    let shown = text(&help.stdout);
    assert!(shown.contains("--max-attempts <N>"), "{shown}");
    assert!(shown.contains("Exit codes:"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn version_is_one_line() {
    let version = outbox_relay(&["--version"], &[]);
    assert_eq!(
        text(&version.stdout),
        concat!("outbox-relay ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn a_missing_setting_is_one_line_and_exit_code_2() {
    let run = outbox_relay(&["run"], &[("AMQP_URL", "amqp://mq")]);
    assert_eq!(run.status.code(), Some(2));
    let line =
        "outbox-relay: DATABASE_URL is not set: expected a URL such as postgres://user:password@host:5432/database\n";
    assert_eq!(text(&run.stderr), line);
}

#[test]
fn a_flag_that_does_not_exist_is_exit_code_2_with_the_nearest_one() {
    let run = outbox_relay(&["run", "--databse-url", "postgres://relay:hunter2@db/shop"], &[]);
    assert_eq!(run.status.code(), Some(2));
    let told = text(&run.stderr);
    assert!(told.contains("--database-url") && !told.contains("hunter2"), "{told}");
}

#[test]
fn check_config_prints_the_settings_and_connects_to_nothing() {
    let urls = [
        ("DATABASE_URL", "postgres://relay:hunter2@db.invalid/shop"),
        ("AMQP_URL", "amqp://relay:hunter2@mq.invalid"),
    ];
    let check = outbox_relay(&["check-config", "--slot", "shop"], &urls);
    assert_eq!((check.status.code(), text(&check.stderr)), (Some(0), ""));
    let shown = text(&check.stdout);
    assert!(shown.contains("db.invalid:5432/shop as relay"), "{shown}");
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with("slot ") && line.ends_with(" --slot")),
        "{shown}"
    );
    assert!(!shown.contains("hunter2"), "{shown}");
}
