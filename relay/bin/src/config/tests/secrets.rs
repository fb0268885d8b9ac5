//! Passwords are never shown.

use super::{PASSWORD, URLS, given, help, refusal, try_given};
use crate::config::Servers;

#[test]
fn a_bad_url_is_refused_with_its_variable_and_without_its_text() {
    let told = refusal(&[], &[("OUTBOX_RELAY_DATABASE_URL", "mysql://relay:hunter2@db/shop")]);
    assert!(told.starts_with("OUTBOX_RELAY_DATABASE_URL=(hidden): "), "{told}");
    let told = refusal(&["--amqp-url", "amqp://relay:hunter2@mq:port/"], &[]);
    assert!(told.starts_with("--amqp-url (hidden): "), "{told}");
    assert!(!told.contains(PASSWORD), "{told}");
}

#[test]
fn no_output_shows_a_password() {
    let given = given(&["run"], &URLS);
    let config = given.resolve(Servers::All).unwrap();
    let shown: Vec<_> = given.in_force().collect();
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
        let error = try_given(arguments, &[]).err().unwrap();
        assert!(!error.to_string().contains(PASSWORD), "{error}");
        assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
    }
}
