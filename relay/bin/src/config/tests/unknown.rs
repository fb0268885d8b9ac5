//! Tests that an unknown setting is rejected by name.

use super::{PASSWORD, file, refusal, resolve};

#[test]
fn an_unknown_variable_is_refused_with_the_nearest_name() {
    let message = refusal(&[], &[("OUTBOX_RELAY_MAX_ATEMPTS", "5")]);
    assert_eq!(message, "OUTBOX_RELAY_MAX_ATEMPTS: unknown variable: did you mean OUTBOX_RELAY_MAX_ATTEMPTS?");
    let message = refusal(&[], &[("OUTBOX_RELAY_AMQP_URI", "amqp://relay:hunter2@mq")]);
    assert_eq!(message, "OUTBOX_RELAY_AMQP_URI: unknown variable: did you mean AMQP_URL?");
}

#[test]
fn variables_of_others_are_none_of_our_business() {
    assert!(resolve(&[], &[("PATH", "/bin"), ("SLOT", "x"), ("OUTBOX_RELAYED", "x")]).is_ok());
    assert!(resolve(&[], &[("OUTBOX_RELAY_SERVICE_HOST", "10.0.0.1")]).is_ok());
}

#[test]
fn an_unknown_key_of_the_file_is_refused_with_its_line_and_the_nearest_name() {
    let file = file("\nmax-attempts = 5\n[postgres]\nurl = 'x'\n");
    let path = file.path();
    let message = refusal(&["--config", path], &[]);
    assert_eq!(
        message.lines().collect::<Vec<_>>(),
        [
            format!("{path}:2: max-attempts: unknown key: did you mean max_attempts?"),
            format!(
                "{path}:3: postgres: unknown table: the tables are [postgresql], [rabbitmq], [kafka], [publishing], [retrying], \
                 [running], [deletion], [watching]"
            ),
        ]
    );
}

#[test]
fn a_file_that_is_missing_or_no_toml_is_refused_with_its_name_and_line() {
    let message = refusal(&["--config", "/no/such/file.toml"], &[]);
    assert!(message.starts_with("/no/such/file.toml: cannot be read: "), "{message}");
    let file = file("slot = 'a'\ndatabase_url = postgres://relay:hunter2@db/shop\n");
    let message = refusal(&["--config", file.path()], &[]);
    assert!(message.starts_with(&format!("{}:2: not TOML: ", file.path())), "{message}");
    assert!(!message.contains(PASSWORD), "{message}");
}

#[test]
fn a_table_in_the_place_of_a_value_is_refused() {
    let file = file("slot = ['a']");
    let message = refusal(&["--config", file.path()], &[]);
    assert!(
        message.starts_with(&format!("{}:1: slot: not a single value: expected 1 to 63", file.path())),
        "{message}"
    );
}

#[test]
fn a_key_without_a_value_is_told_as_such() {
    for (text, line) in [("slot = 'a'\nexchange =\n", 2), ("exchange =   # none\nslot = 'a'", 1)] {
        let file = file(text);
        let message = refusal(&["--config", file.path()], &[]);
        assert!(message.starts_with(&format!("{}:{line}: exchange: there is no value", file.path())), "{message}");
    }
}
