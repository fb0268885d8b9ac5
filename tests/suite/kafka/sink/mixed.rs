//! Events that Kafka takes among those that it does not.

use std::collections::HashMap;

use harness::{AclOperation, AclResource, SOON};

use super::{Sink, run, shared, wait_for_counts};

/// How the error of each kind of event begins; `None`: Kafka takes it.
const KINDS: [(&str, Option<&str>); 9] = [
    ("good", None),
    ("small", None),
    ("with a key", None),
    ("too large", Some("10 MESSAGE_TOO_LARGE")),
    ("without a key", Some("87 INVALID_RECORD")),
    ("unknown topic", Some("3 UNKNOWN_TOPIC_OR_PARTITION")),
    ("invalid name", Some("17 INVALID_TOPIC_EXCEPTION")),
    ("forbidden", Some("29 TOPIC_AUTHORIZATION_FAILED")),
    ("hidden", Some("29 TOPIC_AUTHORIZATION_FAILED")),
];

#[tokio::test]
async fn of_ten_thousand_events_those_that_kafka_does_not_take_fail_alone_with_its_words_and_all_others_are_sent_once()
{
    let Some(kafka) = shared().await else { return };
    let good = kafka.topic(3, &[]).await;
    let small = kafka.topic(1, &[("max.message.bytes", "2000")]).await;
    let compact = kafka.topic(1, &[("cleanup.policy", "compact")]).await;
    let (forbidden, hidden) = (kafka.topic(1, &[]).await, kafka.topic(1, &[]).await);
    let sink = Sink::new(kafka).await;
    let unknown = format!("{}-unknown", sink.db.name());
    let allow = async |topic, operation| kafka.allow("app", AclResource::Topic(topic), operation).await;
    for topic in [&good, &small, &compact] {
        allow(topic, AclOperation::Read).await;
        allow(topic, AclOperation::Write).await;
    }
    allow(&forbidden, AclOperation::Describe).await; // without it Kafka does not say that the topic is there
    allow(&unknown, AclOperation::Describe).await;
    run(
        &sink.db,
        &format!(
            "CREATE TABLE emitted AS SELECT n, key, kind, outbox.emit(
                 CASE kind WHEN 'good' THEN '{good}' WHEN 'small' THEN '{small}' WHEN 'too large' THEN '{small}'
                     WHEN 'unknown topic' THEN '{unknown}' WHEN 'invalid name' THEN 'no/topic'
                     WHEN 'forbidden' THEN '{forbidden}' WHEN 'hidden' THEN '{hidden}' ELSE '{compact}' END,
                 to_json(CASE kind WHEN 'too large' THEN repeat('x', 3000) ELSE n::text END),
                 aggregate_type => 't', aggregate_id => key) AS id
             FROM (SELECT n, kind, CASE WHEN kind <> 'without a key' THEN 'k' || n % 7 END AS key
                 FROM generate_series(0, 9999) AS n, LATERAL (SELECT (ARRAY[
                     'good', 'small', 'with a key', 'good', 'too large', 'small', 'with a key', 'without a key',
                     'unknown topic', 'good', 'small', 'invalid name', 'with a key', 'forbidden', 'good', 'small',
                     'hidden', 'with a key', 'good', 'good'])[1 + n % 20] AS kind) AS kinds ORDER BY n) AS mixed"
        ),
    )
    .await;
    let _relay = sink.relay_of_app().start().await;
    wait_for_counts(&sink.db, (0, 7000, 3000), 2 * SOON).await;

    let sql = "SELECT id::text, n, kind, status::text, attempts, coalesce(last_error, ''), topic, key
               FROM emitted JOIN outbox.events USING (id) ORDER BY n";
    let rows = sink.db.query(sql, &[]).await.unwrap();
    assert_eq!(rows.len(), 10_000);
    let kinds = HashMap::from(KINDS);
    let mut expected: HashMap<&str, HashMap<&str, (i32, &str)>> = HashMap::new();
    for row in &rows {
        let [id, kind, status, error, topic] = [0, 2, 3, 5, 6].map(|column| row.get::<_, &str>(column));
        let is_right = match kinds[kind] {
            None => {
                expected.entry(topic).or_default().insert(id, (row.get(1), row.get(7)));
                status == "SENT"
            }
            Some(code) => status == "FAILED" && error.starts_with(code),
        };
        assert!(is_right && row.get::<_, i32>(4) == 1, "{row:?}: {kind} is {status} with {error:?}");
    }
    for topic in [&good, &small, &compact, &forbidden, &hidden] {
        let mut latest = HashMap::new();
        let mut expected = expected.remove(topic.as_str()).unwrap_or_default();
        for record in kafka.records(topic).await {
            let id = record.header("id").unwrap();
            let (n, key) = expected.remove(id).unwrap_or_else(|| panic!("{topic}: {id} is there twice, or is FAILED"));
            assert_eq!(record.key.as_deref(), Some(key.as_bytes()));
            let before = latest.insert(key, n);
            assert!(before.is_none_or(|before| before < n), "{topic}, {key}: {n} behind {before:?}");
        }
        assert!(expected.is_empty(), "{topic} lacks {expected:?}");
    }
}

#[tokio::test]
async fn the_neighbours_of_events_that_kafka_does_not_take_arrive_together_in_the_next_batch() {
    let Some(kafka) = shared().await else { return };
    let compact = kafka.topic(1, &[("cleanup.policy", "compact")]).await;
    let sink = Sink::new(kafka).await;
    let emit = |condition: &str| {
        format!(
            "SELECT outbox.emit('{compact}', to_json(n), aggregate_type => CASE WHEN {condition} THEN 't' END,
                 aggregate_id => CASE WHEN {condition} THEN 'k' || n % 7 END) FROM generate_series(1, 500) AS n"
        )
    };
    run(&sink.db, &emit("n % 20 <> 0")).await;
    let _relay = sink.relay().start().await;
    wait_for_counts(&sink.db, (0, 475, 25), SOON).await;
    let records = kafka.records(&compact).await;
    // A batch has one time and consecutive numbers, and one that is refused uses none.
    let numbers: Vec<_> = records.iter().map(|record| record.producer.2).collect();
    let times: Vec<_> = records.iter().map(|record| record.timestamp).collect();
    assert_eq!(numbers, (0..475).collect::<Vec<_>>());
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
}
