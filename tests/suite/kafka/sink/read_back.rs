//! What an earlier relay has published is not published again.

use harness::{AclOperation, AclResource, Kafka, Proxy, SOON, eventually, free_port};

use super::{Sink, assert_all_in_order, emit, private, run, shared, wait_for_counts};

/// How often chance decides whether a fault shows itself.
const ROUNDS: usize = 4;

/// Every one of the `count` events is in the topic once, and each key's are in order.
pub(super) async fn assert_once(kafka: &Kafka, topic: &str, count: i64) {
    let records = kafka.records(topic).await;
    assert_all_in_order(&records, count);
    assert_eq!(i64::try_from(records.len()), Ok(count), "none is there twice");
}

/// So many events are SENT, or more.
pub(super) async fn wait_until_sent(sink: &Sink<'_>, count: i64) {
    eventually(&format!("{count} are SENT"), SOON, async || {
        let sql = "SELECT count(*) FROM outbox.events WHERE status = 'SENT'";
        let sent: i64 = sink.db.query_one(sql, &[]).await.unwrap().get(0);
        if sent >= count { Ok(()) } else { Err(sent) }
    })
    .await;
}

/// Takes back the verdicts of the last events, as if the relay had been killed before it could write them.
pub(super) async fn forget_verdicts(sink: &Sink<'_>, from: i64) {
    let take_back = "ALTER TABLE outbox.events DISABLE TRIGGER USER;
        UPDATE outbox.events SET status = 'PENDING', attempts = 0, processed_at = NULL, last_attempted_at = NULL
        WHERE payload::text::bigint >= ";
    run(&sink.db, &format!("{take_back} {from}; ALTER TABLE outbox.events ENABLE TRIGGER USER")).await;
}

#[tokio::test]
async fn what_was_published_and_not_settled_is_found_in_the_topic_and_becomes_sent() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(3, &[]).await;
    let sink = Sink::new(kafka).await;
    let relay = sink.relay().start().await;
    emit(&sink.db, &topic, 1, 1000).await;
    wait_for_counts(&sink.db, (0, 1000, 0), SOON).await;
    relay.kill().await;
    forget_verdicts(&sink, 401).await;
    emit(&sink.db, &topic, 1001, 200).await;
    let relay = sink.relay().start().await;
    wait_for_counts(&sink.db, (0, 1200, 0), SOON).await;
    assert_once(kafka, &topic, 1200).await;
    assert!(!relay.log_text().contains("read back"), "nothing is wrong: {}", relay.log_text());
}

#[tokio::test]
async fn an_event_that_is_replayed_is_published_again_although_its_topic_has_it() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    let sink = Sink::new(kafka).await;
    let relay = sink.relay().start().await;
    emit(&sink.db, &topic, 1, 10).await;
    wait_for_counts(&sink.db, (0, 10, 0), SOON).await;
    relay.kill().await;
    run(&sink.db, "SELECT outbox.replay(id) FROM outbox.events WHERE payload::text = '7'").await;
    let _relay = sink.relay().start().await;
    wait_for_counts(&sink.db, (0, 10, 0), SOON).await;
    let records = kafka.records(&topic).await;
    assert_all_in_order(&records, 10);
    let replayed: Vec<_> = records.iter().filter_map(|record| record.header("x-outbox-replay")).collect();
    assert_eq!((records.len(), replayed), (11, vec!["1"]));
}

#[tokio::test]
async fn a_frozen_relay_that_is_woken_after_another_has_taken_over_writes_nothing_twice() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(3, &[]).await;
    let sink = Sink::new(kafka).await;
    let builder = sink.relay().set("takeover-after", "5s");
    let mut emitted = 0;
    for round in 0..3 {
        let frozen = builder.start().await;
        emit(&sink.db, &topic, emitted + 1, 40_000).await;
        wait_until_sent(&sink, emitted + 1 + 5000 * round).await;
        frozen.pause();
        emit(&sink.db, &topic, emitted + 40_001, 100).await;
        emitted += 40_100;
        let other = builder.spawn();
        other.wait_for_log("streaming").await;
        wait_for_counts(&sink.db, (0, emitted, 0), 3 * SOON).await;
        frozen.resume();
        frozen.wait_for_log("waiting to take over").await;
        emit(&sink.db, &topic, emitted + 1, 100).await;
        emitted += 100;
        wait_for_counts(&sink.db, (0, emitted, 0), SOON).await;
        drop((frozen, other));
    }
    assert_once(kafka, &topic, emitted).await;
}

#[tokio::test]
async fn a_topic_that_has_more_than_may_be_read_is_named_and_its_events_are_published_again() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    let sink = Sink::new(kafka).await;
    let builder = sink.relay().set("kafka-read-back", "1MiB");
    let relay = builder.start().await;
    emit(&sink.db, &topic, 1, 40_000).await;
    wait_for_counts(&sink.db, (0, 40_000, 0), SOON).await;
    relay.kill().await;
    forget_verdicts(&sink, 39_901).await;
    let relay = builder.start().await;
    relay.wait_for_log("cannot be read back to the end").await;
    wait_for_counts(&sink.db, (0, 40_000, 0), SOON).await;
    let records = kafka.records(&topic).await;
    assert_all_in_order(&records, 40_000);
    assert_eq!(records.len(), 40_100);
}

#[tokio::test]
async fn thousands_of_topics_that_are_not_there_are_looked_for_together_and_hold_up_no_connection() {
    let Some(builder) = private() else { return };
    let port = free_port();
    let proxy = Proxy::to(port).await;
    let kafka = builder.proxied(port, proxy.port()).start().await;
    let topic = kafka.topic(1, &[]).await;
    let sink = Sink::new(&kafka).await;
    run(&sink.db, "SELECT outbox.emit('no-such-' || n, to_json(n)) FROM generate_series(1, 5000) AS n").await;
    emit(&sink.db, &topic, 1, 300).await;
    let url = format!("kafka://127.0.0.1:{}", proxy.port());
    let relay = sink.relay().set("kafka-url", &url).start().await;
    wait_for_counts(&sink.db, (0, 300, 5000), SOON).await;
    assert_all_in_order(&kafka.records(&topic).await, 300);
    let log = relay.log_text();
    assert!(!log.contains("connecting anew"), "{log}");
    let questions = proxy.questions();
    assert!(questions < 2500, "{questions} questions about 5000 topics");
}

#[tokio::test]
async fn who_may_not_read_the_topic_or_use_the_name_is_warned_and_publishes_at_least_once() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    let allow = async |operation| kafka.allow("app", AclResource::Topic(&topic), operation).await;
    allow(AclOperation::Write).await;
    allow(AclOperation::Describe).await;
    let sink = Sink::new(kafka).await;
    let builder = sink.relay_of_app();
    let relay = builder.start().await;
    emit(&sink.db, &topic, 1, 100).await;
    wait_for_counts(&sink.db, (0, 100, 0), SOON).await;
    relay.wait_for_log("earlier relays are not shut out").await;
    relay.wait_for_log("TRANSACTIONAL_ID_AUTHORIZATION_FAILED").await;
    relay.wait_for_log("cannot be read back to the end").await;
    relay.kill().await;

    allow(AclOperation::Read).await;
    forget_verdicts(&sink, 51).await;
    let relay = builder.start().await;
    wait_for_counts(&sink.db, (0, 100, 0), SOON).await;
    assert_once(kafka, &topic, 100).await;
    relay.kill().await;

    let name: String = relay
        .log_text()
        .split("transactional_id=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .map(str::to_owned)
        .unwrap_or_else(|| panic!("the name is in the log: {}", relay.log_text()));
    kafka.allow("app", AclResource::TransactionalId(&name), AclOperation::Write).await;
    forget_verdicts(&sink, 21).await;
    let relay = builder.start().await;
    wait_for_counts(&sink.db, (0, 100, 0), SOON).await;
    assert_once(kafka, &topic, 100).await;
    assert!(!relay.log_text().contains("not shut out"), "{}", relay.log_text());
}

#[tokio::test]
async fn while_a_topic_has_too_few_replicas_for_the_marker_relays_that_start_serve_the_other_topics() {
    let Some(builder) = private() else { return };
    let kafka = builder.three_nodes().start().await;
    let stuck = kafka.topic(1, &[("min.insync.replicas", "3")]).await;
    let other = kafka.topic(1, &[("min.insync.replicas", "2")]).await;
    let sink = Sink::new(&kafka).await;
    let leader = kafka.leader(&stuck, 0).await;
    let away = kafka.nodes().iter().find(|node| node.id() != leader).unwrap();
    away.kill().await;
    kafka.wait_for_replicas_in_sync(&stuck, 2).await;
    emit(&sink.db, &stuck, 1, 20).await;
    for round in 0..3 {
        let relay = sink.relay().set("retry-max", "1s").start().await;
        let (first, last) = (1 + round * 100, (round + 1) * 100);
        let emit_other = format!(
            "SELECT outbox.emit('{other}', to_json(n), aggregate_type => 'other', aggregate_id => 'o' || n % 10)
             FROM generate_series({first}, {last}) AS n"
        );
        run(&sink.db, &emit_other).await;
        wait_for_counts(&sink.db, (20, 100 * (round + 1), 0), SOON).await;
        relay.kill().await;
    }
    away.start().await;
    let _relay = sink.relay().set("retry-max", "1s").start().await;
    wait_for_counts(&sink.db, (0, 320, 0), 2 * SOON).await;
    assert_once(&kafka, &stuck, 20).await;
    assert_once(&kafka, &other, 300).await;
}

#[tokio::test]
async fn a_topic_whose_leader_was_frozen_while_its_relay_was_killed_is_read_back_once_the_leader_is_awake() {
    let Some(builder) = private() else { return };
    let kafka = builder.three_nodes().start().await;
    let (awake, frozen) = (kafka.node(1), kafka.node(2));
    let sink = Sink::new(&kafka).await;
    let builder = sink.relay().set("confirm-timeout", "3s").set("retry-max", "1s");
    let mut relay = builder.start().await;
    let mut emitted = 0;
    for _ in 0..ROUNDS {
        let (stuck, other) = (kafka.topic_on(frozen).await, kafka.topic_on(awake).await);
        emit(&sink.db, &stuck, 1, 20).await;
        emit(&sink.db, &other, 1, 20).await;
        emitted += 40;
        wait_for_counts(&sink.db, (0, emitted, 0), SOON).await;
        frozen.pause();
        emit(&sink.db, &stuck, 21, 20).await;
        // The cluster takes the leadership from the node, which does not know of it when it wakes.
        kafka.wait_for_no_leader(&stuck).await;
        emit(&sink.db, &other, 21, 20).await;
        emitted += 40;
        relay.kill().await;
        relay = builder.start().await;
        frozen.resume();
        wait_for_counts(&sink.db, (0, emitted, 0), SOON).await;
        for topic in [&stuck, &other] {
            assert_all_in_order(&kafka.records(topic).await, 40);
        }
    }
}
