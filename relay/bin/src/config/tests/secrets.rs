//! Tests that passwords are never shown.

use super::{PASSWORD, URLS, help, raw, refusal, try_raw};
use crate::config::Servers;

#[test]
fn a_bad_url_is_refused_with_its_variable_and_without_its_text() {
    let message = refusal(&[], &[("OUTBOX_RELAY_DATABASE_URL", "mysql://relay:hunter2@db/shop")]);
    assert!(message.starts_with("OUTBOX_RELAY_DATABASE_URL=(hidden): "), "{message}");
    let message = refusal(&["--amqp-url", "amqp://relay:hunter2@mq:port/"], &[]);
    assert!(message.starts_with("--amqp-url (hidden): "), "{message}");
    assert!(!message.contains(PASSWORD), "{message}");
}

#[test]
fn no_output_shows_a_password() {
    let raw = raw(&["run"], &URLS);
    let config = raw.resolve(Servers::All).unwrap();
    let shown: Vec<_> = raw.in_force().collect();
    for text in [format!("{config:?}"), format!("{shown:?}"), help()] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[test]
fn a_url_in_the_wrong_place_of_the_command_line_is_not_quoted() {
    for arguments in [
        &["run", "amqp://relay:hunter2@mq"][..],
        &["amqp://relay:hunter2@mq"],
        &["run", "--amqp-uri=amqp://relay:hunter2@mq"],
        &["run", "--amqp-uri", "amqp://relay:hunter2@mq"],
        &["run", "--amqp-url", "amqp://relay:hunter2@a", "--amqp-url", "amqp://relay:hunter2@b"],
        &["run", "host=db password=hunter2"],
        &["run", "-pamqp://relay:hunter2@mq"],
    ] {
        let error = try_raw(arguments, &[]).err().unwrap();
        assert!(!error.to_string().contains(PASSWORD), "{error}");
        assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
    }
}
