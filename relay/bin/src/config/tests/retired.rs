//! Tests that settings of earlier versions are accepted, and have no effect.

use super::{PASSWORD, URLS, file, raw};
use crate::config::{RETIRED, SETTINGS, Servers};

#[test]
fn a_setting_of_an_earlier_version_stops_no_relay_wherever_it_stands_and_is_named_with_its_place() {
    for retired in &RETIRED {
        let (flag, variable) = (retired.key.replace('_', "-"), format!("OUTBOX_RELAY_{}", retired.key.to_uppercase()));
        let file = file(&format!("{} = 'x=hunter2'", retired.key));
        let with = |arguments: &[&str], variables: &[(&str, &str)]| {
            let raw = raw(&[&["run"], arguments].concat(), &[&URLS, variables].concat());
            let config = raw.resolve(Servers::All).unwrap();
            assert!(!format!("{config:?}").contains(PASSWORD), "{config:?}");
            raw.retired().map(|(retired, place)| (retired.key, place.to_owned())).collect::<Vec<_>>()
        };
        let named = |place: &str| vec![(retired.key, place.to_owned())];
        assert_eq!(with(&[&format!("--{flag}"), "x=hunter2"], &[]), named(&format!("--{flag}")));
        assert_eq!(with(&[], &[(&variable, "x=hunter2")]), named(&variable));
        assert_eq!(with(&["--config", file.path()], &[]), named(&format!("{}:1", file.path())));
        assert_eq!(with(&["--config", file.path()], &[(&variable, "x")]), named(&variable), "each once");
    }
}

#[test]
fn no_setting_of_today_is_a_retired_one() {
    let is_today = |key: &str| SETTINGS.iter().flat_map(|setting| setting.names()).any(|name| name.key() == key);
    assert!(RETIRED.iter().all(|retired| !is_today(retired.key)));
}

/// Every setting of 0.2.0.
const BEFORE: &str = "\
    database_url database_url_file amqp_url amqp_url_file no_wait application_name publication slot create_slot \
    failover_slot max_slot_wal takeover_after check_interval status_interval exchange declare_exchange ordering \
    unroutable in_flight confirm_timeout app_id max_attempts retry_for retry_base retry_max after_failed max_events \
    max_bytes park_after settle_batch settle_interval shutdown_timeout retention retention_failed http_listen \
    otlp_endpoint otlp_headers otlp_service_name dashboard dashboard_database_url dashboard_database_url_file \
    dashboard_operator_database_url dashboard_operator_database_url_file dashboard_readers dashboard_operators \
    dashboard_hosts dashboard_path log_format log";

#[test]
fn every_setting_of_0_2_0_is_still_accepted() {
    let is_known = |key: &str| {
        let is_retired = RETIRED.iter().any(|retired| retired.key == key);
        is_retired || SETTINGS.iter().flat_map(|setting| setting.names()).any(|name| name.key() == key)
    };
    for key in BEFORE.split_whitespace() {
        assert!(is_known(key), "{key}");
    }
}
