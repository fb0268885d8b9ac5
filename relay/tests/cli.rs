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
    for arguments in [&["--help"][..], &["run", "--help"], &["help", "events"]] {
        let help = outbox_relay(arguments, &[("DATABASE_URL", "postgres://relay:hunter2@db/shop")]);
        assert_eq!(help.status.code(), Some(0));
        let shown = text(&help.stdout);
        assert_eq!(shown.contains("--max-attempts <N>"), arguments == ["run", "--help"], "{shown}");
        assert!(shown.contains("Exit codes:") || arguments == ["help", "events"], "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
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
    let line = "outbox-relay: neither DATABASE_URL nor DATABASE_URL_FILE is set: expected a URL such as \
                postgres://user:password@host:5432/database\n";
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
fn config_prints_the_settings_and_connects_to_nothing() {
    let urls =
        [("DATABASE_URL", "postgres://relay:hunter2@db.invalid/shop"), ("AMQP_URL", "amqp://relay:hunter2@mq.invalid")];
    let config = outbox_relay(&["config", "--slot", "shop"], &urls);
    assert_eq!((config.status.code(), text(&config.stderr)), (Some(0), ""));
    let shown = text(&config.stdout);
    assert!(shown.contains("db.invalid:5432/shop as relay"), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("slot ") && line.ends_with(" --slot")), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");

    let config = outbox_relay(&["config", "--json", "--slot", "shop"], &urls);
    let slot = text(&config.stdout).lines().find(|line| line.contains("\"slot\"")).unwrap();
    assert_eq!(slot, r#"{"key":"slot","value":"shop","origin":"--slot"}"#);
}

#[test]
fn completions_and_manual_pages_need_no_settings() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = outbox_relay(&["completions", shell], &[]);
        assert_eq!(script.status.code(), Some(0), "{}", text(&script.stderr));
        assert!(text(&script.stdout).contains("replay"), "{shell}");
    }
    let page = outbox_relay(&["man"], &[]);
    assert!(text(&page.stdout).contains(".TH outbox-relay 1"), "{}", text(&page.stdout));
    let folder = std::env::temp_dir().join(format!("outbox-relay-man-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let written = outbox_relay(&["man", "--dir", folder.to_str().unwrap()], &[]);
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let events = std::fs::read_to_string(folder.join("outbox-relay-events.1")).unwrap();
    assert!(events.contains("\\-\\-since") && folder.join("outbox-relay.1").exists(), "{events}");
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(outbox_relay(&["man", "--dir", "/no/such/folder"], &[]).status.code(), Some(2));
}

#[test]
fn a_command_that_needs_a_broker_says_so_and_another_needs_none() {
    let database = format!("postgres://relay:hunter2@{}/shop", nowhere());
    let urls = [("DATABASE_URL", database.as_str())];
    assert_eq!(outbox_relay(&["tail", "#", "--yes"], &urls).status.code(), Some(2));
    for arguments in [&["status"][..], &["events"], &["replay", "--all"], &["purge", "--older-than", "7d"]] {
        let asked = outbox_relay(arguments, &urls);
        let told = text(&asked.stderr);
        assert_eq!(asked.status.code(), Some(10), "{told}");
        assert!(told.starts_with("outbox-relay: cannot connect to 127.0.0.1:") && !told.contains("hunter2"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

/// An address where nobody listens.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

#[test]
fn a_broker_that_is_not_there_and_not_to_be_waited_for_is_one_line_and_its_exit_code() {
    let broker = format!("amqp://relay:hunter2@{}", nowhere());
    let database = format!("postgres://relay:hunter2@{}/shop", nowhere());
    let urls = [("DATABASE_URL", database.as_str()), ("AMQP_URL", broker.as_str())];
    let run = outbox_relay(&["run", "--no-wait"], &urls);
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
