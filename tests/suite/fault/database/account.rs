//! What clients committed against what arrived.

use std::collections::{HashMap, HashSet};

use harness::{Consumer, Delivery, eventually};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{LATER, assert_one_attempt, number, wait_until_sent};

/// Waits until the relay is done, then checks all that is promised: nothing lost, nothing invented, keys in order,
/// every row its verdict, one attempt each, and at most `repeated` deliveries twice. `committed` are the events whose
/// commit was answered.
pub(super) async fn check(db: &Client, consumer: &Consumer, committed: &[Uuid], repeated: usize) {
    eventually("no event is PENDING", LATER, async || {
        match number(db, "(SELECT count(*) FROM outbox.events WHERE status = 'PENDING')").await {
            0 => Ok(()),
            pending => Err(pending),
        }
    })
    .await;
    let rows = db.query("SELECT id FROM outbox.events", &[]).await.unwrap();
    let rows: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    wait_until_sent(db, rows.len() as i64).await;
    assert_one_attempt(db).await;

    let known: HashSet<Uuid> = rows.iter().copied().collect();
    let lost = committed.iter().filter(|id| !known.contains(id)).count();
    assert_eq!(lost, 0, "committed events without a row");
    let deliveries = consumer.wait_for_ids(&rows, LATER).await;
    let invented = deliveries.iter().filter(|delivery| !known.contains(&delivery.id)).count();
    assert_eq!(invented, 0, "deliveries of events that were never committed");
    assert_in_order(&deliveries);

    let duplicates = deliveries.len() - rows.len();
    println!("{} events, {duplicates} duplicates of at most {repeated}", rows.len());
    assert!(duplicates <= repeated, "{duplicates} duplicates, and at most {repeated} are promised");
}

/// First deliveries of each key are in the order of their numbers.
pub(super) fn assert_in_order(deliveries: &[Delivery]) {
    let mut seen = HashSet::new();
    let mut last: HashMap<(String, String), i64> = HashMap::new();
    for delivery in deliveries.iter().filter(|delivery| seen.insert(delivery.id)) {
        let Some(key) = delivery.key() else { continue };
        let n = delivery.json()["n"].as_i64().unwrap();
        let before = last.insert(key.clone(), n);
        assert!(before.is_none_or(|before| before < n), "{key:?}: {n} came after {before:?}");
    }
}
