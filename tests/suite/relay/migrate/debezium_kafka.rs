//! From Debezium's outbox table to Kafka, with a real Debezium Server: what both make of a row, and the switch.

use std::{collections::HashMap, path::Path, time::Duration};

use harness::{
    Database, Debezium, DebeziumSink, Kafka, KafkaConsumer, KafkaRecord, Listener, Postgres, RelayBuilder, SOON,
    eventually,
};
use serde_json::{Value, json};

use super::{
    debezium::{INSERT, home},
    inserts::{Inserts, numbers},
    wait_for_counts,
};
use crate::{
    documents::sql_under,
    kafka::{private, shared},
};

/// Time for Java to start, and for Debezium Server to publish, beside other tests.
const LONG: Duration = Duration::from_secs(90);

fn relay(db: &Database, kafka: &Kafka) -> RelayBuilder {
    let url = format!("kafka://{}", kafka.addresses(Listener::Plain));
    let relay = RelayBuilder::new().set("database-url", db.url()).set("slot", db.name()).set("kafka-url", &url);
    relay.set("envelope", "debezium")
}

/// Keys and payloads. A payload that is an array ends Debezium Server 3.6.
const PAYLOADS: [(&str, &str); 6] = [
    ("1", r#"{"order": 1, "total": 12.5, "paid": true}"#),
    ("42", r#"{"text": "ö \"quoted\" \\ \n", "nested": {"list": [1, 2, 3], "empty": {}}}"#),
    ("a key/ü", r#"{"large": 9007199254740993, "money": 1.50}"#),
    ("\"quoted\"", "{}"),
    ("null", r#"{"gone": null, "stays": "x"}"#),
    ("mixed", r#"{"mixed": [1, "x", null]}"#),
];

#[tokio::test]
async fn envelope_debezium_makes_the_record_that_debeziums_router_makes_of_the_same_row() {
    let Some(home) = home() else { return };
    let Some(kafka) = shared().await else { return };
    for (id, [theirs, ours]) in both(&home, kafka, true).await {
        let [theirs_json, ours_json] =
            [&theirs, &ours].map(|record| serde_json::from_slice(record.value.as_ref().unwrap()).unwrap());
        assert_same_but_value(&theirs, &ours);
        match text(&theirs.key).as_str() {
            // What the schema cannot say that Debezium makes of a payload.
            r#""null""# => {
                assert_eq!((theirs_json, ours_json), (json!({"stays": "x"}), json!({"gone": null, "stays": "x"})));
            }
            r#""mixed""# => assert_eq!(theirs_json, Value::String(text(&ours.value))),
            _ => assert_eq!(theirs_json, ours_json, "{id}"),
        }
    }
}

#[tokio::test]
async fn a_payload_that_debezium_passes_on_as_text_is_the_same_to_the_byte() {
    let Some(home) = home() else { return };
    let Some(kafka) = shared().await else { return };
    for [theirs, ours] in both(&home, kafka, false).await.into_values() {
        assert_same_but_value(&theirs, &ours);
        assert_eq!(text(&theirs.value), text(&ours.value));
    }
}

fn assert_same_but_value(theirs: &KafkaRecord, ours: &KafkaRecord) {
    assert_eq!(text(&theirs.key), text(&ours.key));
    assert_eq!(theirs.partition, ours.partition);
    // Debezium 3.6 adds which of its connectors it was, and which run of it.
    let is_context = |name: &String| name.starts_with("__debezium.context.");
    let headers = theirs.headers.iter().filter(|(name, _)| !is_context(name)).cloned();
    assert_eq!(headers.collect::<Vec<_>>(), ours.headers);
    // Both are the time of publishing.
    assert!(theirs.timestamp <= ours.timestamp);
}

fn text(bytes: &Option<bytes::Bytes>) -> String {
    String::from_utf8(bytes.as_deref().unwrap_or_default().to_vec()).unwrap()
}

/// What Debezium, and then the relay, make of the same rows in the same topic, by the rows' ids.
async fn both(home: &Path, kafka: &Kafka, expands: bool) -> HashMap<String, [KafkaRecord; 2]> {
    let (db, mut consumer) = published_by_debezium(home, kafka, expands).await;
    // Reading back, the relay would find Debezium's records by their ids, and send none again.
    let relay = to_the_same_topic(&db, kafka).set("kafka-read-back", "off");
    let _relay = relay.start().await;
    consumer.wait_for(2 * PAYLOADS.len()).await;
    let mut records: HashMap<String, Vec<KafkaRecord>> = HashMap::new();
    for record in consumer.records() {
        records.entry(record.header("id").unwrap().to_owned()).or_default().push(record.clone());
    }
    assert_eq!(records.len(), PAYLOADS.len());
    records.into_iter().map(|(id, pair)| (id, pair.try_into().unwrap())).collect()
}

/// Rows that Debezium has published, and pending events of the same ids; and who reads their topic.
async fn published_by_debezium<'a>(home: &Path, kafka: &'a Kafka, expands: bool) -> (Database, KafkaConsumer<'a>) {
    let db = Postgres::shared().await.database().await;
    let kind = format!("order-{}", uuid::Uuid::new_v4().simple());
    let topic = format!("outbox.event.{kind}");
    kafka.create_topic(&topic, 3, &[]).await;
    let blocks = sql_under("docs/migrate.md", "## From Debezium's outbox table");
    db.batch_execute(&blocks[0]).await.unwrap();
    let expand = expands.to_string();
    let settings = [
        ("debezium.transforms.outbox.table.expand.json.payload", &*expand),
        ("debezium.transforms.outbox.table.fields.additional.placement", "type:header:eventType"),
    ];
    let debezium = Debezium::start(home, &db, DebeziumSink::Kafka(kafka), &settings).await;
    for (key, payload) in PAYLOADS {
        let insert = "INSERT INTO outboxevent VALUES (gen_random_uuid(), $1, $2, 'moved', $3::text::jsonb)";
        db.execute(insert, &[&kind, &key, &payload]).await.unwrap();
    }
    let mut consumer = kafka.consumer(&topic);
    consumer.wait_for_within(PAYLOADS.len(), LONG).await;
    drop(debezium);

    let payload = if expands { "payload" } else { "to_json(payload::text)" };
    let emit = format!(
        "INSERT INTO outbox.events (id, topic, payload, event_type, aggregate_type, aggregate_id, headers)
         SELECT id, 'unused', {payload}, type, aggregatetype, aggregateid, jsonb_build_object('eventType', type)
         FROM outboxevent"
    );
    db.batch_execute(&emit).await.unwrap();
    (db, consumer)
}

fn to_the_same_topic(db: &Database, kafka: &Kafka) -> RelayBuilder {
    relay(db, kafka).set("kafka-topic", "outbox.event.{aggregate_type}")
}

#[tokio::test]
async fn a_new_relay_finds_by_its_id_what_debezium_has_published_and_does_not_send_it_again() {
    let Some(home) = home() else { return };
    let Some(kafka) = shared().await else { return };
    let (db, mut consumer) = published_by_debezium(&home, kafka, true).await;
    let relay = to_the_same_topic(&db, kafka).start().await;
    let all = i64::try_from(PAYLOADS.len()).unwrap();
    wait_for_counts(&db, (0, all, 0), SOON).await;
    relay.stop().await;
    assert_eq!(consumer.read().await.len(), PAYLOADS.len());
}

#[tokio::test]
async fn debeziums_table_is_taken_over_to_kafka_and_nothing_is_lost_doubled_or_out_of_order() {
    let Some(home) = home() else { return };
    let Some(builder) = private() else { return };
    let kafka = builder.start().await;
    for topic in ["outbox.event.order", "outbox.event.switch"] {
        kafka.create_topic(topic, 3, &[]).await;
    }
    let db = Postgres::shared().await.database().await;
    let blocks = sql_under("docs/migrate.md", "## From Debezium's outbox table");
    let [table, switch, again] = &blocks[..] else { panic!("{blocks:?}") };
    db.batch_execute(table).await.unwrap();
    let debezium = Debezium::start(&home, &db, DebeziumSink::Kafka(&kafka), &[]).await;
    let inserts = Inserts::start(&db, INSERT).await;
    inserts.wait_for_more().await;
    kafka.consumer("outbox.event.order").wait_for_within(50, LONG).await;

    let mut switched = kafka.consumer("outbox.event.switch");
    db.batch_execute(switch).await.unwrap();
    inserts.wait_for_more().await;
    switched.wait_for_within(1, LONG).await;
    db.batch_execute(again).await.unwrap();
    switched.wait_for_within(2, LONG).await;
    let drop_slot = format!("SELECT pg_drop_replication_slot('{}')", debezium.slot());
    drop(debezium);
    let _relay = relay(&db, &kafka).start().await;

    let inserted = inserts.stop().await;
    let mut consumer = kafka.consumer("outbox.event.order");
    consumer.wait_for(inserted.values().map(Vec::len).sum()).await;
    let taken_over = db.query_one("SELECT count(*) FROM outbox.events", &[]).await.unwrap().get(0);
    wait_for_counts(&db, (0, taken_over, 0), SOON).await;
    let records = consumer.read().await;
    assert_eq!(
        numbers(records.iter().map(|record| serde_json::from_slice(record.value.as_ref().unwrap()).unwrap())),
        inserted
    );
    let mut partitions: HashMap<&[u8], i32> = HashMap::new();
    for record in records {
        let partition = *partitions.entry(record.key.as_deref().unwrap()).or_insert(record.partition);
        assert_eq!(partition, record.partition, "a key stays in its partition: {record:?}");
    }
    assert!(taken_over > 0 && i64::try_from(records.len()).unwrap() > taken_over, "{taken_over} of {}", records.len());
    eventually("Debezium's slot can be dropped", SOON, async || {
        db.batch_execute(&drop_slot).await.map_err(|error| error.to_string())
    })
    .await;
}
