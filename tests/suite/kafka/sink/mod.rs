//! The relay with Kafka as its broker.

mod broker;
mod check;
mod cluster;
mod commands;
mod compression;
mod faults;
mod in_doubt;
mod limits;
mod logins;
mod mixed;
mod read_back;
mod tls;
mod verdicts;

use std::collections::{HashMap, HashSet};

use harness::{Connection, Database, Kafka, KafkaRecord, Listener, Postgres, RelayBuilder, SOON, eventually};

use super::{private, shared};
use crate::relay::wait_for_counts;

/// A database of the test's own, and a relay from it to a Kafka.
struct Sink<'a> {
    db: Database,
    kafka: &'a Kafka,
}

impl<'a> Sink<'a> {
    async fn new(kafka: &'a Kafka) -> Self {
        Self { db: Postgres::shared().await.database().await, kafka }
    }

    fn relay(&self) -> RelayBuilder {
        let url = format!("kafka://{}", self.kafka.addresses(Listener::Plain));
        RelayBuilder::new().set("database-url", self.db.url()).set("slot", self.db.name()).set("kafka-url", &url)
    }

    /// The same, logged in as the user of [`Kafka::shared`].
    fn relay_of_app(&self) -> RelayBuilder {
        self.relay().set("kafka-url", &format!("kafka://app:secret@{}", self.kafka.addresses(Listener::Sasl)))
    }
}

async fn run(db: &Connection, sql: &str) {
    db.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// Waits until so much time has passed, where a broker or a relay goes by the clock alone.
async fn pass(db: &Connection, time: &str) {
    let since: String = db.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap().get(0);
    let has_passed = format!("SELECT clock_timestamp() > '{since}'::timestamptz + '{time}'::interval");
    eventually(&format!("{time} pass"), SOON, async || {
        if db.query_one(&has_passed, &[]).await.unwrap().get(0) { Ok(()) } else { Err("not yet") }
    })
    .await;
}

/// Emits so many events with numbers from `first` on, as bodies, of keys `k0` to `k9`.
async fn emit(db: &Connection, topic: &str, first: i64, count: i64) {
    let last = first + count - 1;
    run(
        db,
        &format!(
            "SELECT outbox.emit('{topic}', to_json(n), aggregate_type => 'order', aggregate_id => 'k' || n % 10)
             FROM generate_series({first}, {last}) AS n"
        ),
    )
    .await;
}

fn number(record: &KafkaRecord) -> i64 {
    std::str::from_utf8(record.value.as_ref().unwrap()).unwrap().parse().unwrap()
}

/// The numbers in the records of each key, each at its first delivery.
fn by_key(records: &[KafkaRecord]) -> HashMap<String, Vec<i64>> {
    let (mut keys, mut seen) = (HashMap::<String, Vec<i64>>::new(), HashSet::new());
    for record in records {
        let key = String::from_utf8(record.key.clone().unwrap().to_vec()).unwrap();
        let number = number(record);
        if seen.insert(number) {
            keys.entry(key).or_default().push(number);
        }
    }
    keys
}

/// Every one of the `count` events of [`emit`] is among the records, and each key's are in order.
fn assert_all_in_order(records: &[KafkaRecord], count: i64) {
    let keys = by_key(records);
    for (key, numbers) in &keys {
        assert!(numbers.is_sorted(), "{key}: {numbers:?}");
    }
    let mut all: Vec<i64> = keys.into_values().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (1..=count).collect::<Vec<_>>());
}
