//! The program as it is started: help, usage errors, exit codes, streams.

use std::{
    net::{SocketAddr, TcpListener},
    process::{Command, Output},
};

fn outbox_relay(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outbox-relay"))
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("its output is UTF-8")
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
    assert_eq!(text(&version.stdout), concat!("outbox-relay ", env!("CARGO_PKG_VERSION"), "\n"));
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
    let urls =
        [("DATABASE_URL", "postgres://relay:hunter2@db.invalid/shop"), ("AMQP_URL", "amqp://relay:hunter2@mq.invalid")];
    let check = outbox_relay(&["check-config", "--slot", "shop"], &urls);
    assert_eq!((check.status.code(), text(&check.stderr)), (Some(0), ""));
    let shown = text(&check.stdout);
    assert!(shown.contains("db.invalid:5432/shop as relay"), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("slot ") && line.ends_with(" --slot")), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// An address where nobody listens.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

#[test]
fn a_broker_that_is_not_there_is_one_line_and_its_exit_code() {
    let broker = format!("amqp://relay:hunter2@{}", nowhere());
    let database = format!("postgres://relay:hunter2@{}/shop", nowhere());
    let urls = [("DATABASE_URL", database.as_str()), ("AMQP_URL", broker.as_str())];
    let run = outbox_relay(&["run"], &urls);
    let told = text(&run.stderr);
    assert_eq!(run.status.code(), Some(20), "{told}");
    let last = told.lines().last().unwrap();
    assert!(last.starts_with("outbox-relay: cannot connect to amqp://relay@127.0.0.1:"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn with_json_logs_the_failure_is_a_json_line_too() {
    let database = format!("postgres://relay:hunter2@{}/shop", nowhere());
    let init = outbox_relay(&["init", "--log-format", "json"], &[("DATABASE_URL", database.as_str())]);
    let told = text(&init.stderr);
    assert_eq!(init.status.code(), Some(10), "{told}");
    let line: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!((line["level"].as_str(), line["exit_code"].as_u64()), (Some("ERROR"), Some(10)), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}
