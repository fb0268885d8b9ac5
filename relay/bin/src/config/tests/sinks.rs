//! Tests that events go to exactly one broker.

use outbox_service::sink::{SinkConfig, kafka::Envelope};

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
        for form in ["amqp://user:password@host:5672/vhost", "kafka://user:password@host:9092"] {
            assert!(message.contains(&format!("expected a URL such as {form}")), "{message}");
        }
    }
}

#[test]
fn two_brokers_are_refused_with_both_places() {
    let file = ("OUTBOX_RELAY_KAFKA_URL_FILE", "/run/kafka");
    let two = raw(&["run"], &[URLS[0], URLS[1], file]).resolve(Servers::All).unwrap_err().to_string();
    let expected = "AMQP_URL=(hidden): not together with OUTBOX_RELAY_KAFKA_URL_FILE=/run/kafka: \
                    a relay publishes to one broker: leave the others out";
    assert!(two.lines().any(|line| line == expected), "{two}");
}

#[test]
fn kafka_is_the_sink_if_its_url_is_given_alone() {
    let url = "kafka://app:secret@a,b:19092";
    let flags = ["run", "--kafka-url", url, "--kafka-topic", "outbox.{aggregate_type}", "--envelope", "debezium"];
    let config = raw(&flags, &URLS[..1]).resolve(Servers::All).unwrap().service();
    let Some(SinkConfig::Kafka(kafka)) = config.sink else { panic!("no Kafka") };
    let shown = (kafka.url.to_string(), kafka.topic.to_string());
    assert_eq!(shown, ("kafka://app@a:9092,b:19092".to_owned(), "outbox.{aggregate_type}".to_owned()));
    assert_eq!(kafka.envelope, Envelope::Debezium);
}

#[test]
fn a_setting_of_the_broker_that_is_not_given_is_refused_with_its_place() {
    let kafka = ["run", "--kafka-url", "kafka://a", "--exchange", "orders"];
    let message = raw(&kafka, &URLS[..1]).resolve(Servers::All).unwrap_err().to_string();
    assert_eq!(message, "--exchange orders: a setting of RabbitMQ, and kafka_url names another broker: leave it out");
    let file = super::file("[kafka]\nkafka_topic = 'orders'\nenvelope = 'none'\nkafka_read_back = 'off'");
    let rabbitmq = raw(&["run", "--config", file.path()], &URLS).resolve(Servers::All).unwrap_err().to_string();
    assert_eq!(rabbitmq.lines().count(), 2, "{rabbitmq}");
    assert!(rabbitmq.contains(":2: kafka_topic = orders: a setting of Kafka, and amqp_url names"), "{rabbitmq}");
}
