//! A broker that ends connections by its own rules, or slows a client down.

use harness::{Listener, Relay, SOON};

use super::{Sink, assert_all_in_order, emit, pass, private, wait_for_counts};

/// Emits until the broker has ended connections, as the wait between the parts is longer than it lets them live.
async fn emit_while_connections_end(sink: &Sink<'_>, relay: &Relay, topic: &str) {
    for part in 0..3 {
        emit(&sink.db, topic, 1 + 100 * part, 100).await;
        wait_for_counts(&sink.db, (0, 100 * (part + 1), 0), SOON).await;
        pass(&sink.db, "2.5 s").await;
    }
    let records = sink.kafka.records(topic).await;
    assert_all_in_order(&records, 300);
    assert_eq!(records.len(), 300, "none is there twice");
    let log = relay.log_text();
    assert!(!log.contains("WARN"), "nothing is wrong: {log}");
}

#[tokio::test]
async fn connections_that_the_broker_closes_because_they_are_idle_are_no_news() {
    let Some(builder) = private() else { return };
    let kafka = builder.set("connections.max.idle.ms", "1000").start().await;
    let topic = kafka.topic(3, &[]).await;
    let sink = Sink::new(&kafka).await;
    let relay = sink.relay().start().await;
    emit_while_connections_end(&sink, &relay, &topic).await;
}

#[tokio::test]
async fn a_login_that_the_broker_lets_live_for_a_while_only_is_renewed() {
    let Some(builder) = private() else { return };
    let kafka = builder.set("connections.max.reauth.ms", "2000").user("app", "secret").start().await;
    let topic = kafka.topic(3, &[]).await;
    let sink = Sink::new(&kafka).await;
    let url = format!("kafka://app:secret@{}", kafka.addresses(Listener::Sasl));
    let relay = sink.relay().set("kafka-url", &url).start().await;
    emit_while_connections_end(&sink, &relay, &topic).await;
}

#[tokio::test]
async fn a_relay_that_has_stood_by_while_the_broker_closed_its_connection_takes_over_without_a_warning() {
    let Some(builder) = private() else { return };
    let kafka = builder.set("connections.max.idle.ms", "1000").start().await;
    let topic = kafka.topic(3, &[]).await;
    let sink = Sink::new(&kafka).await;
    let first = sink.relay().start().await;
    let standby = sink.relay().spawn();
    standby.wait_for_log("standby").await;
    emit(&sink.db, &topic, 1, 100).await;
    wait_for_counts(&sink.db, (0, 100, 0), SOON).await;
    pass(&sink.db, "2.5 s").await;
    first.kill().await;
    standby.wait_for_log("streaming").await;
    emit(&sink.db, &topic, 101, 100).await;
    wait_for_counts(&sink.db, (0, 200, 0), SOON).await;
    let records = kafka.records(&topic).await;
    assert_all_in_order(&records, 200);
    assert_eq!(records.len(), 200, "none is there twice");
    let log = standby.log_text();
    assert!(!log.contains("WARN"), "nothing is wrong: {log}");
}
