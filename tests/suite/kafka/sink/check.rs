//! `check` with a real Kafka.

use std::collections::BTreeMap;

use harness::{AclOperation, AclResource, Listener, RelayBuilder, SOON, eventually};
use kafka_producer::{Compression, Inspector, ProduceConfig};
use serde_json::Value;

use super::{Sink, emit, private, run, shared, wait_for_counts};
use crate::kafka::producer::Producer;

/// What a check has found: its level and its sentence, with what to do.
type Finding = (String, String);

/// The default from Kafka 4.0 on.
const AN_HOUR_AHEAD: (&str, &str) = ("message.timestamp.after.max.ms", "3600000");

async fn check(relay: &RelayBuilder) -> BTreeMap<String, Finding> {
    let (_, printed) = relay.clone().arguments(&["check", "--json"]).finish().await;
    let findings = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |finding: &Value, field| finding[field].as_str().unwrap_or_default().to_owned();
    findings
        .map(|finding| {
            let said = format!("{} → {}", text(&finding, "found"), text(&finding, "to_do"));
            (text(&finding, "check"), (text(&finding, "level"), said))
        })
        .collect()
}

#[track_caller]
fn assert_found(findings: &BTreeMap<String, Finding>, check: &str, level: &str, words: &[&str]) {
    let (found, said) = findings.get(check).unwrap_or_else(|| panic!("{check} is missing: {findings:?}"));
    assert!(found == level && words.iter().all(|word| said.contains(word)), "{check}: {found}: {said}");
}

#[tokio::test]
async fn check_names_a_topic_of_the_last_day_that_is_missing_and_is_fine_without_one() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(2, &[AN_HOUR_AHEAD]).await;
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay().start().await;
    assert_found(&check(&sink.relay()).await, "topics", "unknown", &["no event in the last day"]);
    emit(&sink.db, &topic, 1, 10).await;
    wait_for_counts(&sink.db, (0, 10, 0), SOON).await;
    let findings = check(&sink.relay()).await;
    assert_found(&findings, "broker", "ok", &["connected to Kafka: 127.0.0.1:"]);
    assert_found(&findings, "topics", "ok", &["1 topic of the last day"]);
    assert_found(&findings, "topic_rights", "ok", &["WRITE"]);
    assert_found(&findings, "record_sizes", "ok", &[]);
    assert_found(&findings, "retention", "ok", &["for 7d or longer"]);
    assert_found(&findings, "record_times", "ok", &["1h"]);
    let (status, said) = sink.relay().arguments(&["check"]).finish().await;
    assert!(status.success(), "{said}");
    emit(&sink.db, "gone", 1, 1).await;
    wait_for_counts(&sink.db, (0, 10, 1), SOON).await;
    assert_found(&check(&sink.relay()).await, "topics", "bad", &["gone", "3 UNKNOWN_TOPIC_OR_PARTITION"]);
    let (status, said) = sink.relay().arguments(&["check"]).finish().await;
    assert!(!status.success(), "{said}");
}

#[tokio::test]
async fn check_finds_that_a_listener_lets_nobody_in_without_a_login_and_that_a_controller_is_no_broker() {
    let Some(kafka) = shared().await else { return };
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay().start().await;
    for (listener, words) in [(Listener::Sasl, "it may expect a login"), (Listener::Controller, "KRaft controller")] {
        let relay = sink.relay().set("kafka-url", &format!("kafka://{}", kafka.addresses(listener)));
        assert_found(&check(&relay).await, "broker", "bad", &[words, "kafka_url"]);
        let (status, said) = relay.arguments(&["check"]).finish().await;
        assert_eq!(status.code(), Some(1), "{said}");
    }
}

#[tokio::test]
async fn check_says_which_topics_refuse_or_soon_delete_what_was_emitted() {
    let Some(kafka) = shared().await else { return };
    let small = kafka.topic(1, &[("max.message.bytes", "2000")]).await;
    let compact = kafka.topic(1, &[("cleanup.policy", "compact"), AN_HOUR_AHEAD]).await;
    let short = kafka.topic(1, &[("retention.ms", "3600000")]).await;
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay().start().await;
    emit(&sink.db, &compact, 1, 3).await;
    emit(&sink.db, &short, 1, 3).await;
    // One that fits, with what a record has beside its body.
    run(&sink.db, &format!("SELECT outbox.emit('{small}', to_json(repeat('x', 1600)))")).await;
    wait_for_counts(&sink.db, (0, 7, 0), SOON).await;
    let findings = check(&sink.relay()).await;
    assert_found(&findings, "record_sizes", "ok", &[]);
    assert_found(&findings, "retention", "warning", &["less than a day", &short]);

    // Compressed in the table, they are small.
    run(&sink.db, &format!("SELECT outbox.emit('{small}', to_json(repeat('x', 100000)))")).await;
    run(&sink.db, &format!("SELECT outbox.emit('{compact}', '1'::json)")).await;
    wait_for_counts(&sink.db, (0, 7, 2), SOON).await;
    let findings = check(&sink.relay()).await;
    assert_found(&findings, "record_sizes", "bad", &[&small, "100,3", "of 2,000 bytes", "limit_payloads"]);
    assert_found(&findings, "retention", "bad", &[&compact, "87 INVALID_RECORD", "aggregate_id"]);

    assert_found(&findings, "record_times", "ok", &["1h"]);
    for topic in [&small, &compact, &short] {
        kafka.set_of_topic(topic, "message.timestamp.type", "LogAppendTime").await;
    }
    assert_found(&check(&sink.relay()).await, "record_times", "ok", &["any time"]);
}

#[tokio::test]
async fn check_warns_of_topics_whose_events_one_broker_can_lose() {
    let Some(builder) = private() else { return };
    let kafka = builder.three_nodes().start().await;
    let (safe, unsafe_one) = (kafka.topic(2, &[]).await, kafka.topic(1, &[("min.insync.replicas", "1")]).await);
    let sink = Sink::new(&kafka).await;
    let _relay = sink.relay().start().await;
    emit(&sink.db, &safe, 1, 3).await;
    wait_for_counts(&sink.db, (0, 3, 0), SOON).await;
    assert_found(&check(&sink.relay()).await, "replicas", "ok", &["two of them"]);
    emit(&sink.db, &unsafe_one, 1, 3).await;
    wait_for_counts(&sink.db, (0, 6, 0), SOON).await;
    let named = format!("1 topic: {unsafe_one} (3/1)");
    assert_found(&check(&sink.relay()).await, "replicas", "warning", &[&named, "min.insync.replicas = 2"]);
}

#[tokio::test]
async fn check_names_rights_that_the_user_lacks_and_does_not_know_what_it_may_not_see() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    let allow = async |operation| kafka.allow("app", AclResource::Topic(&topic), operation).await;
    let sink = Sink::new(kafka).await;
    let relay = sink.relay_of_app();
    run(&sink.db, &format!("SELECT outbox.emit('{topic}', '1'::json)")).await;
    assert_found(&check(&relay).await, "topics", "bad", &[&topic, "29 TOPIC_AUTHORIZATION_FAILED", "DESCRIBE"]);
    for (operation, check_of, level, words) in [
        (AclOperation::Describe, "topic_rights", "bad", "no right WRITE"),
        (AclOperation::Write, "topic_rights", "warning", "no right READ"),
        (AclOperation::Read, "topic_rights", "ok", "DESCRIBE, WRITE and READ"),
        (AclOperation::DescribeConfigs, "record_sizes", "ok", ""),
    ] {
        if check_of == "record_sizes" {
            let findings = check(&relay).await;
            for unknown in ["record_sizes", "retention", "record_times"] {
                assert_found(&findings, unknown, "unknown", &[&topic, "DESCRIBE_CONFIGS"]);
            }
            assert_found(&findings, "replicas", "warning", &["(1/?)"]);
        }
        allow(operation).await;
        eventually(&format!("{operation:?} is known"), SOON, async || {
            let findings = check(&relay).await;
            let (found, said) = &findings[check_of];
            if found == level && said.contains(words) { Ok(()) } else { Err(format!("{found}: {said}")) }
        })
        .await;
    }
}

#[tokio::test]
async fn the_right_to_write_by_a_name_is_known_without_changing_what_the_name_has() {
    let Some(kafka) = shared().await else { return };
    let config = ProduceConfig {
        url: format!("kafka://app:secret@{}", kafka.addresses(Listener::Sasl)).parse().unwrap(),
        client_id: "test".to_owned(),
        read_back: 0,
        compression: Compression::None,
        keeps_order: true,
        confirm_timeout: SOON,
        connect_timeout: SOON,
    };
    let mut inspector = Inspector::connect(config).await.unwrap();
    assert!(!inspector.may_write_as("outbox").await.unwrap());
    kafka.allow("app", AclResource::TransactionalId("outbox"), AclOperation::Write).await;
    let mut producer = Producer(kafka.client().await);
    let before = producer.identity(Some("outbox")).await.unwrap();
    eventually("it may write", SOON, async || match inspector.may_write_as("outbox").await {
        Ok(true) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert!(inspector.may_write_as("outbox").await.unwrap());
    assert_eq!(producer.identity(Some("outbox")).await, Ok(before.next_epoch()));
}
