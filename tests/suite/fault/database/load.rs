//! Clients that go on emitting whatever the database does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{Connection, SOON, eventually};
use tokio::{task::JoinHandle, time::sleep};
use tokio_postgres::Error;
use uuid::Uuid;

const CLIENTS: usize = 3;
const KEYS: i64 = 4;
const EVENTS: i64 = 5;

/// Clients leave the machine some time for the servers.
const PACE: Duration = Duration::from_millis(20);

/// Each client has keys of its own and one transaction at a time, so its numbers are in commit order.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<Uuid>>>,
}

impl Load {
    /// Another load has other keys.
    pub(super) fn start(url: &str) -> Self {
        static LOADS: AtomicUsize = AtomicUsize::new(0);
        let load = LOADS.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::<AtomicBool>::default();
        let committed = Arc::<AtomicUsize>::default();
        let clients = (0..CLIENTS)
            .map(|client| {
                let (stop, committed, url) = (Arc::clone(&stop), Arc::clone(&committed), url.to_owned());
                let client = format!("load {load} client {client}");
                tokio::spawn(async move { emit_until(&stop, &committed, &client, &url).await })
            })
            .collect();
        Self { stop, committed, clients }
    }

    /// Events whose commit was answered so far.
    pub(super) fn committed(&self) -> usize {
        self.committed.load(Ordering::Relaxed)
    }

    /// Waits until the clients have committed `count` more.
    pub(super) async fn goes_on(&self, count: usize) {
        let goal = self.committed() + count;
        eventually(&format!("clients have committed {goal} events"), SOON, async || match self.committed() {
            committed if committed >= goal => Ok(()),
            committed => Err(committed),
        })
        .await;
    }

    /// Ends the clients. Returns the events whose commit was answered; there may be others, whose answer was lost.
    pub(super) async fn stop(self) -> Vec<Uuid> {
        self.stop.store(true, Ordering::Relaxed);
        let mut ids = Vec::new();
        for client in self.clients {
            ids.extend(tokio::time::timeout(SOON, client).await.expect("a client that ends").unwrap());
        }
        ids
    }
}

async fn emit_until(stop: &AtomicBool, committed: &AtomicUsize, client: &str, url: &str) -> Vec<Uuid> {
    let mut ids = Vec::new();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        // A server that is not there is asked again.
        if let Ok(db) = Connection::try_open(url).await {
            while !stop.load(Ordering::Relaxed) {
                let key = format!("{client} key {}", n / EVENTS % KEYS);
                let emitted = emit(&db, &key, n).await;
                n += EVENTS;
                let Ok(emitted) = emitted else { break };
                committed.fetch_add(emitted.len(), Ordering::Relaxed);
                ids.extend(emitted);
                sleep(PACE).await;
            }
        }
        sleep(PACE).await;
    }
    ids
}

async fn emit(db: &Connection, key: &str, n: i64) -> Result<Vec<Uuid>, Error> {
    let sql = "SELECT outbox.emit('load', jsonb_build_object('n', n), aggregate_type => 'client', aggregate_id => $1)
               FROM generate_series($2::bigint, $2 + $3 - 1) AS n";
    Ok(db.query(sql, &[&key, &n, &EVENTS]).await?.iter().map(|row| row.get(0)).collect())
}
