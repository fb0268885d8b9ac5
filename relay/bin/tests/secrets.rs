//! Secrets stay out of everything that the program prints, wherever they were written by mistake.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

const SECRET: &str = "hunter2hunter2hunter2";

/// Forms in which a secret comes to stand where it does not belong.
fn forms() -> [String; 5] {
    [
        format!("postgres://relay:{SECRET}@127.0.0.1:9/app"),
        format!("amqp://relay:{SECRET}@127.0.0.1:9"),
        format!("host=127.0.0.1 port=9 user=relay password={SECRET}"),
        format!("relay:{SECRET}@127.0.0.1:9/app"),
        format!("ada {SECRET}"),
    ]
}

fn outbox_relay(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outbox-relay"))
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts")
}

/// Names of files that hold settings, and settings of earlier versions: the program takes them, and does not list them.
const OTHERS: [&str; 6] = [
    "database_url_file",
    "amqp_url_file",
    "dashboard_database_url_file",
    "dashboard_operator_database_url_file",
    "otlp_headers",
    "app_id",
];

/// The keys of all settings, as the program lists them, and the others.
fn keys() -> Vec<String> {
    let listed = outbox_relay(&["config", "--json"], &URLS);
    let listed = String::from_utf8(listed.stdout).expect("JSON is UTF-8");
    let key = |line| serde_json::from_str::<serde_json::Value>(line).ok()?.get("key")?.as_str().map(str::to_owned);
    let keys = listed.lines().map(|line| key(line).expect("each line has a setting"));
    let keys: Vec<_> = keys.chain(OTHERS.map(str::to_owned)).collect();
    assert!(keys.len() > 40, "{keys:?}");
    keys
}

/// Everything that was printed.
fn shows_no_secret(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let done = outbox_relay(arguments, variables);
    for printed in [&done.stdout, &done.stderr] {
        let printed = String::from_utf8_lossy(printed);
        assert!(!printed.contains("hunter2"), "{arguments:?} {variables:?}\n{printed}");
        assert!(!printed.contains("panicked"), "{arguments:?} {variables:?}\n{printed}");
    }
    done
}

/// Settings with which the program ends by itself: nobody listens there.
const URLS: [(&str, &str); 2] =
    [("DATABASE_URL", "postgres://relay@127.0.0.1:9/app"), ("AMQP_URL", "amqp://relay@127.0.0.1:9")];

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("outbox-relay-secrets-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("it can be written");
        Self(folder)
    }

    fn file(&self, text: &str) -> String {
        let path = self.0.join("relay.toml");
        fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_secret_in_any_setting_is_never_shown_whether_a_flag_a_variable_or_the_file_has_it() {
    let folder = Folder::new("settings");
    for key in keys() {
        // Two addresses of one server would be refused before anything else.
        let others: Vec<_> = URLS.into_iter().filter(|(name, _)| !key.to_uppercase().starts_with(name)).collect();
        for secret in forms() {
            let flag = format!("--{}={secret}", key.replace('_', "-"));
            let variable = format!("OUTBOX_RELAY_{}", key.to_uppercase());
            let file = folder.file(&format!("{key} = {secret:?}\n"));
            let listening = [("OUTBOX_RELAY_HTTP_LISTEN", "0"), ("OUTBOX_RELAY_NO_WAIT", "true")];
            let environment: Vec<_> =
                others.iter().copied().chain(listening).filter(|(name, _)| *name != variable).collect();
            let with_variable: Vec<_> =
                environment.iter().copied().chain([(variable.as_str(), secret.as_str())]).collect();
            shows_no_secret(&["config", &flag], &environment);
            shows_no_secret(&["config", "--json", "--config", &file], &environment);
            shows_no_secret(&["run"], &with_variable);
        }
    }
}

#[test]
fn a_secret_in_the_place_of_a_name_is_never_shown() {
    let folder = Folder::new("names");
    for secret in forms() {
        let assigned = format!("--slot-name={secret}");
        for arguments in [
            &["config", "--config", &secret][..],
            &["--config", &secret, "run"],
            &["run", &secret],
            &[&secret],
            &["run", &assigned],
            &["run", "--slot-name", &secret],
            &["events", &secret],
            &["events", "--limit", &secret],
            &["events", "--status", &secret],
            &["events", "--timeout", &secret],
            &["purge", "--older-than", &secret],
            &["completions", &secret],
            &["man", "--dir", &secret],
            &["help", &secret],
        ] {
            assert_eq!(shows_no_secret(arguments, &URLS).status.code(), Some(2), "{arguments:?}");
        }
        let variables = [URLS[0], URLS[1], ("OUTBOX_RELAY_CONFIG", &secret)];
        assert_eq!(shows_no_secret(&["config"], &variables).status.code(), Some(2));
        let unknown = format!("OUTBOX_RELAY_{}", secret.replace('=', ":"));
        assert_eq!(shows_no_secret(&["config"], &[URLS[0], URLS[1], (&unknown, "x")]).status.code(), Some(2));
        for text in [
            format!("{secret:?} = 1\n"),
            format!("[{secret:?}]\n"),
            format!("{secret}\n"),
            format!("{secret} =\n"),
            format!("slot = {secret}\n"),
            format!("slot = [{secret:?}]\n"),
            format!("slot = {secret:?}\nslot = {secret:?}\n"),
            format!("{secret:?} = 1\n{secret:?} = 1\n"),
        ] {
            let file = folder.file(&text);
            assert_eq!(shows_no_secret(&["config", "--config", &file], &URLS).status.code(), Some(2), "{text}");
        }
    }
}

#[test]
fn help_and_manual_pages_show_no_value_of_the_environment() {
    for key in keys() {
        let variable = format!("OUTBOX_RELAY_{}", key.to_uppercase());
        for command in [&["run", "--help"][..], &["man"], &["version"], &["completions", "bash"]] {
            assert_eq!(shows_no_secret(command, &[(&variable, SECRET)]).status.code(), Some(0), "{command:?}");
        }
    }
}

#[test]
fn a_file_that_is_missing_is_named_where_its_name_is_one() {
    let done = outbox_relay(&["config", "--config", "/etc/outbox/none.toml"], &URLS);
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(told.starts_with("outbox-relay: /etc/outbox/none.toml: cannot be read: No such file"), "{told}");
    let done = outbox_relay(&["config"], &[URLS[1], ("DATABASE_URL_FILE", "postgres://relay:hunter2@db/app")]);
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(told.contains("DATABASE_URL_FILE=(hidden): ") && told.contains("expected the name of a file"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}
