//! The relay fails: it dies or freezes at every stage, alone and beside others that wait to take over.

mod backlog;
mod freeze;
mod kill;
mod standby;
mod startup;

use std::collections::{HashMap, HashSet};

use harness::{Connection, Consumer, SOON, Stack, eventually};
use uuid::Uuid;

/// Commits `count` events of `keys` keys in one transaction.
async fn emit(db: &Connection, count: usize, keys: usize) -> Vec<Uuid> {
    let sql = format!(
        "SELECT outbox.emit('t', to_jsonb(i), aggregate_type => 'order', aggregate_id => 'key-' || i % {keys})
         FROM generate_series(1, {count}) i"
    );
    db.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Holds what was committed against what arrived and against the table: nothing is lost and nothing invented, every row
/// is SENT after one attempt, and each key's events arrived in the order of their commits. One session must have
/// emitted all. Returns how many deliveries were repetitions.
async fn repeated(stack: &Stack, consumer: &Consumer, committed: &[Uuid]) -> usize {
    wait_for_sent(stack, committed.len()).await;
    // A queue is in order: what was published before this event is delivered before it.
    let last: Uuid = stack.db.query_one("SELECT outbox.emit('last', '{}'::jsonb)", &[]).await.unwrap().get(0);
    let mut deliveries = consumer.wait_for_ids(&[committed, &[last]].concat(), SOON).await;
    deliveries.retain(|delivery| delivery.routing_key != "last");

    let mut seen = HashSet::new();
    let mut keys: HashMap<String, Vec<i64>> = HashMap::new();
    for delivery in &deliveries {
        if seen.insert(delivery.id) {
            keys.entry(delivery.key().unwrap().1).or_default().push(delivery.seq().unwrap());
        }
    }
    assert!(seen == committed.iter().copied().collect(), "the committed ids, and no others");
    for (key, first_deliveries) in keys {
        assert!(first_deliveries.is_sorted(), "{key} is out of order");
    }
    deliveries.len() - committed.len()
}

/// Waits until all that was committed is SENT, by one attempt each: no fault costs an attempt.
async fn wait_for_sent(stack: &Stack, count: usize) {
    let sql = "SELECT count(*) FILTER (WHERE status = 'SENT' AND attempts = 1 AND last_error IS NULL), count(*)
               FROM outbox.events WHERE topic = 't'";
    eventually("every event is SENT after one attempt", SOON, async || {
        let row = stack.db.query_one(sql, &[]).await.unwrap();
        let (sent, all): (i64, i64) = (row.get(0), row.get(1));
        if (sent, all) == (count as i64, count as i64) { Ok(()) } else { Err((sent, all)) }
    })
    .await;
}

/// Rows that nobody else can write to until this session is told to [`release`](Self::release).
struct Locked(Connection);

impl Locked {
    async fn all_events(stack: &Stack) -> Self {
        let session = stack.db.connect().await;
        session.batch_execute("BEGIN; SELECT FROM outbox.events FOR UPDATE").await.unwrap();
        Self(session)
    }

    /// Waits until the relay's write-back waits for the locks.
    async fn wait_for_write_back(&self, stack: &Stack) {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%outbox.settle%'";
        eventually("the write-back waits", SOON, async || {
            let waiting: i64 = stack.db.query_one(sql, &[]).await.unwrap().get(0);
            if waiting > 0 { Ok(()) } else { Err(waiting) }
        })
        .await;
    }

    async fn release(self) {
        self.0.batch_execute("ROLLBACK").await.unwrap();
    }
}
