//! Applications that emit whatever happens to the broker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{Connection, SOON, Stack, eventually};
use tokio::{task::JoinSet, time::MissedTickBehavior};
use uuid::Uuid;

const CLIENTS: usize = 2;

/// Of each client.
pub(super) const KEYS: i32 = 25;

/// Events of a transaction.
const BATCH: i32 = 10;

/// What was committed: the `n`th event of its client, which orders those of a key.
pub(super) struct Emitted {
    pub(super) id: Uuid,
    pub(super) key: String,
    pub(super) n: i32,
}

/// Clients with keys of their own, each of which emits some 500 events a second.
pub(super) struct Load {
    stopping: Arc<AtomicBool>,
    paused: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    clients: JoinSet<Vec<Emitted>>,
}

impl Load {
    pub(super) async fn start(stack: &Stack) -> Self {
        Self::to(stack, "load").await
    }

    /// To this topic.
    pub(super) async fn to(stack: &Stack, topic: &'static str) -> Self {
        let mut load =
            Self { stopping: Arc::default(), paused: Arc::default(), count: Arc::default(), clients: JoinSet::new() };
        for client in 0..CLIENTS {
            let db = stack.db.connect().await;
            let (stopping, paused) = (Arc::clone(&load.stopping), Arc::clone(&load.paused));
            let count = Arc::clone(&load.count);
            load.clients.spawn(async move {
                let mut emitted = Vec::new();
                // A load has a rate, or the fault's length would decide how much is left to do after it.
                let mut ticks = tokio::time::interval(Duration::from_millis(20));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while !stopping.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    if paused.load(Ordering::Relaxed) {
                        continue;
                    }
                    let from = emitted.len() as i32;
                    emitted.extend(emit_to(&db, topic, &format!("{topic}-{client}"), from, from + BATCH).await);
                    count.fetch_add(BATCH as usize, Ordering::Relaxed);
                }
                emitted
            });
        }
        load
    }

    /// Waits until `count` more events are committed.
    pub(super) async fn wait_for(&self, count: usize) {
        let target = self.count() + count;
        let more = || if self.count() >= target { Ok(()) } else { Err(self.count()) };
        eventually(&format!("{target} events are committed"), SOON, async || more()).await;
    }

    /// Emits nothing until it is resumed. For the time in which a node starts: a slow machine needs minutes for that,
    /// in which the backlog would grow past what the same machine works off in a test's time.
    pub(super) fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Undoes [`pause`](Self::pause).
    pub(super) fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) async fn stop(self) -> Vec<Emitted> {
        self.stopping.store(true, Ordering::Relaxed);
        self.clients.join_all().await.into_iter().flatten().collect()
    }
}

/// Emits number `from` up to before `to` of `client`, in one transaction.
pub(super) async fn emit(db: &Connection, client: &str, from: i32, to: i32) -> Vec<Emitted> {
    emit_to(db, "load", client, from, to).await
}

async fn emit_to(db: &Connection, topic: &str, client: &str, from: i32, to: i32) -> Vec<Emitted> {
    let sql = "SELECT outbox.emit($5, jsonb_build_object('n', n), aggregate_type => 'load',
                                  aggregate_id => $1 || '-' || n % $2)
               FROM generate_series($3::int, $4::int - 1) n";
    let rows = db.query(sql, &[&client, &KEYS, &from, &to, &topic]).await.unwrap();
    let event =
        |(n, row): (i32, &tokio_postgres::Row)| Emitted { id: row.get(0), key: format!("{client}-{}", n % KEYS), n };
    (from..to).zip(&rows).map(event).collect()
}
