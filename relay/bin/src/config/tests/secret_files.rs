//! Tests of addresses that are read from files of their own.

use std::fs;

use super::{PASSWORD, URLS, file, raw};
use crate::config::{RawSettings, Servers};

/// Collects settings that name the files of both servers by their plain variables.
fn in_files(database: &str, broker: &str, more: &[(&str, &str)]) -> RawSettings {
    let files = [("DATABASE_URL_FILE", database), ("AMQP_URL_FILE", broker)];
    raw(&["run"], &files.iter().chain(more).copied().collect::<Vec<_>>())
}

#[test]
fn files_stand_for_the_urls_wherever_they_are_named() {
    let (database, broker) = (file(URLS[0].1), file(&format!("{}\n", URLS[1].1)));
    let config = file(&format!("database_url_file = {:?}\namqp_url_file = {:?}", database.path(), broker.path()));
    for raw in [
        in_files(database.path(), broker.path(), &[]),
        raw(&["run", "--database-url-file", database.path(), "--amqp-url-file", broker.path()], &[]),
        raw(&["--config", config.path(), "run"], &[]),
    ] {
        let config = raw.resolve(Servers::All).unwrap();
        assert_eq!(config.database_url.to_string(), "db:5432/shop as relay");
        assert_eq!(config.amqp_url.as_ref().unwrap().to_string(), "amqp://relay@mq:5672/shop");
        fs::write(database.path(), URLS[0].1.replace("@db", "@other")).unwrap();
        assert_eq!(config.database_url.now().unwrap().to_string(), "other:5432/shop as relay");
        fs::write(database.path(), URLS[0].1).unwrap();
    }
}

#[test]
fn the_settings_in_force_show_what_the_files_say_but_for_the_passwords() {
    let (database, broker) = (file(URLS[0].1), file(URLS[1].1));
    let raw = in_files(database.path(), broker.path(), &[]);
    let config = raw.resolve(Servers::All).unwrap();
    let message: Vec<_> = raw.in_force().collect();
    for (key, value) in [("database_url", "db:5432/shop as relay"), ("database_url_file", database.path())] {
        let setting = message.iter().find(|setting| setting.key == key).unwrap();
        assert_eq!((setting.value.as_deref(), &*setting.origin), (Some(value), "DATABASE_URL_FILE"));
    }
    assert!(!format!("{message:?} {config:?}").contains(PASSWORD), "{message:?} {config:?}");
}

#[test]
fn a_url_and_a_file_with_it_are_refused_with_both_places() {
    let (database, broker) = (file(URLS[0].1), file(URLS[1].1));
    let both = in_files(database.path(), broker.path(), &[URLS[0], ("OUTBOX_RELAY_DASHBOARD_DATABASE_URL", "off")]);
    let message = both.resolve(Servers::All).unwrap_err().to_string();
    let path = database.path();
    assert_eq!(
        message,
        format!("DATABASE_URL=(hidden): DATABASE_URL_FILE={path} is given, too: leave one of them out")
    );
    let settings = ("OUTBOX_RELAY_DASHBOARD_DATABASE_URL", "postgres://monitor:hunter2@db/shop");
    let file = ("OUTBOX_RELAY_DASHBOARD_DATABASE_URL_FILE", database.path());
    let message = in_files(path, broker.path(), &[settings, file]).resolve(Servers::All).unwrap_err().to_string();
    assert!(
        message.contains("OUTBOX_RELAY_DASHBOARD_DATABASE_URL=(hidden): ") && !message.contains(PASSWORD),
        "{message}"
    );
}

#[test]
fn a_file_without_a_url_is_refused_with_its_setting() {
    let (broken, broker) = (file("postgres://relay:hunter2@"), file(URLS[1].1));
    let message = in_files(broken.path(), "/nowhere/amqp", &[]).resolve(Servers::All).unwrap_err().to_string();
    assert!(message.contains(&format!("DATABASE_URL_FILE={}: ", broken.path())), "{message}");
    assert!(message.contains("AMQP_URL_FILE=/nowhere/amqp: /nowhere/amqp: cannot be read"), "{message}");
    assert!(!message.contains(PASSWORD), "{message}");
    let empty = file("\n");
    let message = in_files(empty.path(), broker.path(), &[]).resolve(Servers::All).unwrap_err().to_string();
    assert!(message.ends_with("is empty"), "{message}");
}

#[test]
fn a_file_that_a_command_does_not_need_may_be_closed_to_it() {
    let database = file(URLS[0].1);
    let operator = ("OUTBOX_RELAY_DASHBOARD_OPERATOR_DATABASE_URL_FILE", "/nowhere/operator");
    let raw = in_files(database.path(), "/nowhere/amqp", &[operator]);
    let config = raw.resolve(Servers::Database).unwrap();
    assert!(config.amqp_url.unwrap().now().is_err());
    assert!(raw.resolve(Servers::All).is_err());
}
