//! Applications that go on inserting while another outbox is taken over.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use harness::{Database, SOON, eventually};
use serde_json::Value;
use tokio::task::JoinHandle;

const ORDERS: i64 = 4;

/// One application for each order, which numbers its messages from 1 on. A body has `order` and `n`.
pub(super) struct Inserts {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicI64>,
    tasks: Vec<JoinHandle<i64>>,
}

impl Inserts {
    /// With a statement that takes order and number, both of type `bigint`.
    pub(super) async fn start(db: &Database, insert: &'static str) -> Self {
        let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicI64>::default());
        let mut tasks = Vec::new();
        for order in 1..=ORDERS {
            let (db, stop, count) = (db.connect().await, Arc::clone(&stop), Arc::clone(&count));
            tasks.push(tokio::spawn(async move {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    db.query(insert, &[&order, &n]).await.expect("an application notices nothing");
                    count.fetch_add(1, Ordering::Relaxed);
                }
                n
            }));
        }
        Self { stop, count, tasks }
    }

    pub(super) async fn wait_for_more(&self) {
        let before = self.count.load(Ordering::Relaxed);
        eventually("a hundred more are inserted", SOON, async || {
            let more = self.count.load(Ordering::Relaxed) - before;
            if more >= 100 { Ok(()) } else { Err(more) }
        })
        .await;
    }

    /// What each order's consumer has to see.
    pub(super) async fn stop(self) -> BTreeMap<i64, Vec<i64>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut numbers = BTreeMap::new();
        for (order, task) in (1..).zip(self.tasks) {
            numbers.insert(order, (1..=task.await.unwrap()).collect());
        }
        numbers
    }
}

/// What each order's consumer has seen: the numbers in these bodies, in their order.
pub(super) fn numbers(bodies: impl IntoIterator<Item = Value>) -> BTreeMap<i64, Vec<i64>> {
    let mut numbers: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for body in bodies {
        numbers.entry(body["order"].as_i64().unwrap()).or_default().push(body["n"].as_i64().unwrap());
    }
    numbers
}
