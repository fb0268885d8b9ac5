//! Tests of precedence: which of several values wins, and which settings may be left out.

use std::time::Duration;

use super::{URLS, file, raw, resolve};
use outbox_core::Ordering;

use crate::config::{SETTINGS, Servers};

#[test]
fn two_urls_are_all_that_must_be_given() {
    let config = resolve(&[], &[]).unwrap();
    assert_eq!(config.database_url.to_string(), "db:5432/shop as relay");
    assert_eq!(config.amqp_url.unwrap().to_string(), "amqp://relay@mq:5672/shop");
    assert_eq!(config.slot, "outbox");
    assert_eq!(config.ordering, Ordering::Strict);
    assert_eq!(config.retry_base, Duration::from_millis(200));
    assert_eq!(config.max_bytes, 32 << 20);
    assert!(config.create_slot);
}

#[test]
fn a_flag_overrides_a_variable_and_that_the_file_and_that_the_default() {
    let file = file("slot = 'of_file'\nexchange = 'of_file'\napplication_name = 'of_file'");
    let variables =
        [("OUTBOX_RELAY_CONFIG", file.path()), ("OUTBOX_RELAY_SLOT", "of_env"), ("OUTBOX_RELAY_EXCHANGE", "of_env")];
    let config = resolve(&["--slot", "of_flag"], &variables).unwrap();
    assert_eq!(
        [config.slot, config.exchange, config.application_name, config.publication],
        ["of_flag", "of_env", "of_file", "outbox"]
    );
}

#[test]
fn the_flag_names_the_file_before_the_variable_does() {
    let (flag, variable) = (file("slot = 'flag'"), file("slot = 'variable'"));
    let config = resolve(&["--config", flag.path()], &[("OUTBOX_RELAY_CONFIG", variable.path())]).unwrap();
    assert_eq!(config.slot, "flag");
}

#[test]
fn flags_may_stand_before_the_command() {
    let raw = raw(&["--slot", "early", "run", "--exchange", "late"], &URLS);
    let config = raw.resolve(Servers::All).unwrap();
    assert_eq!([config.slot, config.exchange], ["early", "late"]);
}

#[test]
fn a_switch_that_is_off_is_turned_on_by_its_name_alone() {
    assert!(!resolve(&[], &[]).unwrap().no_wait);
    for flags in [&["--no-wait", "run"][..], &["run", "--no-wait"], &["run", "--no-wait=true", "--slot", "a"]] {
        assert!(raw(flags, &URLS).resolve(Servers::All).unwrap().no_wait, "{flags:?}");
    }
    assert!(!raw(&["run", "--no-wait=false"], &URLS).resolve(Servers::All).unwrap().no_wait);
    assert!(resolve(&[], &[("OUTBOX_RELAY_NO_WAIT", "true")]).unwrap().no_wait);
}

#[test]
fn the_variable_with_our_prefix_overrides_the_one_of_the_platform() {
    let config = resolve(&[], &[("OUTBOX_RELAY_AMQP_URL", "amqp://other")]).unwrap();
    assert_eq!(config.amqp_url.unwrap().to_string(), "amqp://guest@other:5672/%2F");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    assert_eq!(resolve(&[], &[("OUTBOX_RELAY_SLOT", "")]).unwrap().slot, "outbox");
    assert!(resolve(&[], &[("OUTBOX_RELAY_SLOTT", "")]).is_ok());
    assert!(resolve(&[], &[("OUTBOX_RELAY_SLOTT", "x")]).is_err());
}

#[test]
fn a_command_that_needs_the_database_alone_needs_no_broker() {
    assert!(raw(&["run"], &URLS[..1]).resolve(Servers::Database).is_ok());
    assert!(raw(&["run"], &[]).resolve(Servers::Database).is_err());
}

#[test]
fn numbers_and_switches_of_the_file_need_no_quotes() {
    let file = file("max_attempts = 1_00\nmax_rate = 0xFFF\ncreate_slot = false\nmax_bytes = 1048576\nin_flight = '7'");
    let config = resolve(&["--config", file.path()], &[]).unwrap();
    let numbers = (config.max_attempts, config.max_rate, config.max_bytes, config.in_flight);
    assert_eq!((numbers, config.create_slot), ((100, Some(4095), 1 << 20, 7), false));
}

#[test]
fn every_setting_is_told_with_its_value_and_origin() {
    let file = file("application_name = 'shop'");
    let variables = [URLS[0], URLS[1], ("OUTBOX_RELAY_EXCHANGE", "orders")];
    let raw = raw(&["run", "--config", file.path(), "--slot", "shop"], &variables);
    let shown = |key: &str| {
        let setting = raw.in_force().find(|setting| setting.key == key).unwrap();
        format!("{}|{}", setting.value.unwrap(), setting.origin)
    };
    assert_eq!(shown("slot"), "shop|--slot");
    assert_eq!(shown("exchange"), "orders|OUTBOX_RELAY_EXCHANGE");
    assert_eq!(shown("application_name"), format!("shop|{}:1", file.path()));
    assert_eq!(shown("retry_max"), "60s|default");
    assert_eq!(shown("amqp_url"), "amqp://relay@mq:5672/shop|AMQP_URL");
    assert_eq!(raw.in_force().count(), SETTINGS.len());
}
