//! The broker breaks, or the way to it: under load, nothing is lost, and it is nobody's fault.

mod cluster;
mod ending;
mod full;
mod line;
mod load;
mod majority;
mod node;
mod operator;
mod refusal;
mod silence;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use harness::{Consumer, RelayBuilder, Stack, eventually};
use load::Emitted;
use serde_json::json;

/// Of the relays here, so that bounds are small.
const IN_FLIGHT: usize = 200;

/// For what takes minutes of work in the worst case: a whole load through a slow machine.
const DRAINED: Duration = Duration::from_secs(90);

fn relay(stack: &Stack) -> RelayBuilder {
    stack.relay().set("in-flight", &IN_FLIGHT.to_string())
}

/// A durable queue that keeps what `binding`, its name, matches until somebody consumes.
async fn queue(stack: &Stack, binding: &str) {
    let (vhost, name) = (stack.vhost.name(), binding.replace('#', "%23"));
    stack.vhost.exchange("outbox").await;
    stack.vhost.api("PUT", &format!("/api/queues/{vhost}/{name}"), Some(&json!({ "durable": true }))).await;
    let path = format!("/api/bindings/{vhost}/e/outbox/q/{name}");
    stack.vhost.api("POST", &path, Some(&json!({ "routing_key": binding }))).await;
}

/// What has to hold whatever broke: all of `emitted` is `SENT` by its first attempt, arrived, in order per key, with at
/// most `repeated` deliveries too many; and nothing else arrived.
async fn check(stack: &Stack, consumer: &Consumer, emitted: &[Emitted], repeated: usize) {
    eventually("every event has its verdict", DRAINED, async || match count(stack, "status = 'PENDING'").await {
        0 => Ok(()),
        pending => Err(format!("{pending} pending")),
    })
    .await;
    let ids: Vec<_> = emitted.iter().map(|event| event.id).collect();
    let sql = "SELECT count(*) FILTER (WHERE status = 'SENT'), count(*) FILTER (WHERE attempts = 1), min(last_error)
               FROM outbox.events WHERE id = ANY($1)";
    let row = stack.db.query_one(sql, &[&ids]).await.unwrap();
    let (sent, once, error) = (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, Option<String>>(2));
    let all = ids.len() as i64;
    assert_eq!((sent, once, error), (all, all, None), "(SENT, by one attempt, an error) of {all}");

    check_arrivals(consumer, emitted, repeated).await;
}

/// The part of [`check`] that a consumer can see.
async fn check_arrivals(consumer: &Consumer, emitted: &[Emitted], repeated: usize) {
    let ids: Vec<_> = emitted.iter().map(|event| event.id).collect();
    let deliveries = consumer.wait_for_ids(&ids, DRAINED).await;
    let places: HashMap<_, _> = emitted.iter().map(|event| (event.id, event)).collect();
    let mut seen = HashSet::new();
    let mut last_of_key: HashMap<&str, i32> = HashMap::new();
    for delivery in &deliveries {
        let event = places.get(&delivery.id).unwrap_or_else(|| panic!("{} was never committed", delivery.id));
        if seen.insert(delivery.id) {
            let last = last_of_key.insert(&event.key, event.n).unwrap_or(-1);
            assert!(last < event.n, "{}: {} came after {last}", event.key, event.n);
        }
    }
    let duplicates = deliveries.len() - ids.len();
    println!("{} events, {duplicates} duplicates of {repeated} allowed", ids.len());
    assert!(duplicates <= repeated, "{duplicates} duplicates, {repeated} allowed");
}

/// How many rows there are `WHERE condition`.
async fn count(stack: &Stack, condition: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM outbox.events WHERE {condition}");
    stack.db.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Waits until at least `expected` rows are there `WHERE condition`.
async fn wait_for_rows(stack: &Stack, condition: &str, expected: i64) {
    eventually(&format!("{expected} rows with {condition}"), DRAINED, async || match count(stack, condition).await {
        seen if seen >= expected => Ok(()),
        seen => Err(seen),
    })
    .await;
}

/// Waits until no more than `bytes` of WAL are held back by the test's slot.
async fn wait_for_slot(stack: &Stack, bytes: i64) {
    let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), confirmed_flush_lsn)::bigint
               FROM pg_replication_slots WHERE slot_name = $1";
    eventually("the slot moves on", DRAINED, async || {
        let lag: i64 = stack.db.query_one(sql, &[&stack.db.name()]).await.unwrap().get(0);
        if lag <= bytes { Ok(()) } else { Err(lag) }
    })
    .await;
}
