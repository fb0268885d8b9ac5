//! Tests that events go to exactly one broker.

use outbox_service::sink::SinkConfig;

use super::{URLS, raw, resolve};
use crate::config::Servers;

#[test]
fn the_broker_that_is_given_is_the_sink_with_its_own_settings() {
    let config = resolve(&["--exchange", "orders"], &[]).unwrap().service();
    let Some(SinkConfig::RabbitMq(rabbitmq)) = config.sink else { panic!("no broker") };
    assert_eq!(
        (rabbitmq.url.to_string().as_str(), rabbitmq.exchange.as_str()),
        ("amqp://relay@mq:5672/shop", "orders")
    );
    let config = raw(&["run"], &URLS[..1]).resolve(Servers::Database).unwrap();
    assert!(config.service().sink.is_none());
}

#[test]
fn no_broker_is_refused_also_if_it_is_said_to_be_off() {
    for variables in [&URLS[..1], &[URLS[0], ("AMQP_URL", "off")]] {
        let message = raw(&["run"], variables).resolve(Servers::All).unwrap_err().to_string();
        assert!(message.ends_with("expected a URL such as amqp://user:password@host:5672/vhost"), "{message}");
    }
}

/// The dashboard's databases stand for a second and a third broker, of which there is none yet.
#[test]
fn of_several_brokers_none_is_refused_with_the_choices_and_two_with_both_places() {
    let brokers = ["amqp_url", "dashboard_database_url", "dashboard_operator_database_url"];
    let none = raw(&["run"], &[("OUTBOX_RELAY_DASHBOARD_DATABASE_URL", "off")]).not_one_of(&brokers).unwrap();
    for choice in ["AMQP_URL_FILE", "such as amqp://", "OUTBOX_RELAY_DASHBOARD_DATABASE_URL", "such as postgres://"] {
        assert!(none.contains(choice), "{choice}: {none}");
    }
    let file = ("OUTBOX_RELAY_DASHBOARD_DATABASE_URL_FILE", "/run/database");
    let two = raw(&["run"], &[URLS[1], file]).not_one_of(&brokers).unwrap();
    let expected = "AMQP_URL=(hidden): not together with OUTBOX_RELAY_DASHBOARD_DATABASE_URL_FILE=/run/database: \
                    a relay publishes to one broker: leave the others out";
    assert_eq!(two, expected);
    assert_eq!(raw(&["run"], &URLS).not_one_of(&brokers), None);
}
