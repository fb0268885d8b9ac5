//! The program as it is started: help, usage errors, exit codes, streams.

use std::{
    net::{SocketAddr, TcpListener},
    process::{Command, Output},
    time::{Duration, Instant},
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
fn a_setting_of_an_earlier_version_is_one_warning_that_says_what_replaces_it() {
    let (database, broker) = (format!("postgres://relay@{}/shop", nowhere()), format!("amqp://relay@{}", nowhere()));
    let urls = [("DATABASE_URL", database.as_str()), ("AMQP_URL", broker.as_str()), ("OUTBOX_RELAY_APP_ID", "shop")];
    let run = outbox_relay(&["run", "--no-wait", "--otlp-headers", "x-key=hunter2"], &urls);
    let told = text(&run.stderr);
    assert_eq!(run.status.code(), Some(20), "{told}");
    let warnings: Vec<&str> =
        told.lines().filter(|line| line.contains("this setting has no effect any more")).collect();
    for (line, parts) in warnings.iter().zip([
        ["WARN", "app_id", "OUTBOX_RELAY_APP_ID", "application_name"],
        ["WARN", "otlp_headers", "--otlp-headers", "OTEL_EXPORTER_OTLP_HEADERS"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    assert_eq!(warnings.len(), 2, "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    let config = outbox_relay(&["config", "--otlp-headers", "x-key=hunter2"], &urls);
    let told = text(&config.stderr);
    assert!(told.contains("otlp_headers has no effect any more: set the variable OTEL_"), "{told}");
    assert!(told.contains("OUTBOX_RELAY_APP_ID: app_id has no effect any more"), "{told}");
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

#[test]
fn a_time_that_is_given_to_a_command_is_enough_for_all_of_it_although_both_servers_are_silent() {
    // A connection is accepted by the system, and nobody answers.
    let silent = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [database, broker] = silent.each_ref().map(|listener| listener.local_addr().expect("a bound port"));
    let (database, broker) = (format!("postgres://relay:hunter2@{database}/shop"), format!("amqp://relay@{broker}"));
    let urls = [("DATABASE_URL", database.as_str()), ("AMQP_URL", broker.as_str())];
    for (arguments, code) in [
        (&["check", "--timeout", "1s"][..], 1),
        (&["check", "--timeout", "1s", "--json"], 1),
        (&["status", "--timeout", "1s"], 10),
        (&["events", "--timeout", "1s"], 10),
        (&["tail", "#", "--yes", "--for", "1s"], 20),
    ] {
        let began = Instant::now();
        let asked = outbox_relay(arguments, &urls);
        let (took, told) = (began.elapsed(), format!("{}{}", text(&asked.stdout), text(&asked.stderr)));
        assert_eq!(asked.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains("has not answered within 1s"), "{arguments:?}: {told}");
        assert!(took < Duration::from_secs(4), "{arguments:?}: {took:?}");
    }
}

#[test]
fn a_time_that_is_no_iso_date_is_refused_before_anybody_is_asked() {
    let database = format!("postgres://relay@{}/shop", nowhere());
    for command in ["events", "replay", "release"] {
        for time in ["11/12/2026", "12.11.2026", "Nov 12 2026", "yesterday"] {
            for option in ["--since", "--until"] {
                let asked = outbox_relay(&[command, option, time], &[("DATABASE_URL", database.as_str())]);
                let told = text(&asked.stderr);
                assert_eq!(asked.status.code(), Some(2), "{told}");
                assert!(told.contains(option) && told.contains("2026-01-31T08:00Z"), "{told}");
            }
        }
        let asked = outbox_relay(&[command, "--since", "2026-11-12"], &[("DATABASE_URL", database.as_str())]);
        assert_eq!(asked.status.code(), Some(10), "{}", text(&asked.stderr));
    }
}

#[test]
fn a_file_of_settings_that_never_ends_is_refused() {
    let pipe = std::env::temp_dir().join(format!("outbox-relay-cli-pipe-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let pipe = pipe.to_str().expect("its name is UTF-8");
    for (file, why) in [
        ("/dev/zero", "has more than 1024 KiB"),
        (pipe, "nobody has written into it within 5s"),
        ("/", "Is a directory"),
    ] {
        let began = Instant::now();
        let config = outbox_relay(&["config", "--config", file], &[]);
        let told = text(&config.stderr);
        assert_eq!(config.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("outbox-relay: {file}: ")) && told.contains(why), "{told}");
        assert!(began.elapsed() < Duration::from_secs(10), "{told}");
    }
    std::fs::remove_file(pipe).expect("the pipe was there");
}

#[test]
fn a_purge_that_names_no_events_says_how_to_name_some_and_asks_nobody() {
    let database = format!("postgres://relay@{}/shop", nowhere());
    for arguments in [&["purge"][..], &["purge", "--yes"], &["purge", "--dry-run"], &["purge", "--status", "FAILED"]] {
        let purge = outbox_relay(arguments, &[("DATABASE_URL", database.as_str())]);
        let told = text(&purge.stderr);
        assert_eq!(purge.status.code(), Some(2), "{told}");
        let line =
            "outbox-relay: neither an ID nor an age is given, so nothing is deleted (hint: --older-than 30d deletes";
        assert!(told.starts_with(line) && told.contains("--dry-run") && told.lines().count() == 1, "{told}");
    }
}

#[test]
fn a_pipe_that_a_shell_has_made_is_taken_for_the_file_of_settings() {
    let script = format!("{} config --config <(echo \"slot = 'shop'\")", env!("CARGO_BIN_EXE_outbox-relay"));
    let urls = [("DATABASE_URL", "postgres://relay@db/shop"), ("AMQP_URL", "amqp://mq")];
    let config = Command::new("bash").args(["-c", &script]).envs(urls).output().expect("bash is there");
    let shown = text(&config.stdout);
    assert!(
        shown.lines().any(|line| line.starts_with("slot ") && line.contains("shop")),
        "{shown} {}",
        text(&config.stderr)
    );
}

#[test]
fn what_would_end_the_thread_for_http_is_refused_at_the_start() {
    let (database, broker) = (format!("postgres://relay@{}/shop", nowhere()), format!("amqp://relay@{}", nowhere()));
    let urls = [("DATABASE_URL", database.as_str()), ("AMQP_URL", broker.as_str()), ("OUTBOX_RELAY_HTTP_LISTEN", "0")];
    for (name, value, more) in [
        ("OUTBOX_RELAY_DASHBOARD_PATH", "/metrics", None),
        ("OUTBOX_RELAY_DASHBOARD_PATH", "/healthz/", None),
        ("OUTBOX_RELAY_DASHBOARD_PATH", "/readyz", None),
        ("WATCHDOG_USEC", "0", Some(("NOTIFY_SOCKET", "@outbox-test"))),
        ("WATCHDOG_USEC", "1", Some(("NOTIFY_SOCKET", "@outbox-test"))),
        ("WATCHDOG_USEC", "soon", Some(("NOTIFY_SOCKET", "@outbox-test"))),
    ] {
        let variables: Vec<_> = urls.into_iter().chain([(name, value)]).chain(more).collect();
        let run = outbox_relay(&["run", "--no-wait"], &variables);
        let told = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{name}={value}: {told}");
        assert!(told.lines().last().is_some_and(|line| line.contains(&format!("{name}={value}: "))), "{told}");
    }
}
