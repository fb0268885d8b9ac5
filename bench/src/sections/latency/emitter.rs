//! Emits by the clock.

use std::{sync::Arc, time::Duration};

use harness::{Connection, Database};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use crate::emitted::Emitted as Count;

/// Events a second of one connection, at most: 5 ms for each.
const OF_A_CONNECTION: u64 = 200;

/// Connections that take turns.
pub(crate) struct Emitter {
    connections: Vec<Connection>,
    sql: Arc<str>,
    rate: u64,
    count: Count,
}

/// One event that was committed.
pub(crate) struct Emitted {
    /// Its place in the order of calls, from 0.
    pub(crate) number: u64,
    /// Its place in the order of commits, from 0.
    pub(crate) place: u64,
    pub(crate) id: Uuid,
    /// Just before the statement was sent.
    pub(crate) called: std::time::Instant,
    /// When the answer was there, which comes after the commit.
    pub(crate) committed: std::time::Instant,
}

impl Emitter {
    /// Connects. `sql` makes one event of a number, and returns its id; `count` counts them.
    pub(crate) async fn open(db: &Database, sql: &str, rate: u64, count: Count) -> Self {
        let mut connections = Vec::new();
        for _ in 0..(rate / OF_A_CONNECTION).max(4) {
            connections.push(db.connect().await);
        }
        Self { connections, sql: sql.into(), rate, count }
    }

    /// Emits `events`. A session that falls behind catches up, since the clock goes on.
    pub(crate) async fn emit(self, events: u64) -> Vec<Emitted> {
        let start = Instant::now() + Duration::from_millis(50); // all are prepared by then
        let connections = self.connections.len();
        let sessions: Vec<_> = (0..)
            .zip(self.connections)
            .map(|(first, connection)| {
                let (sql, rate, count) = (Arc::clone(&self.sql), self.rate, self.count.clone());
                tokio::spawn(async move {
                    let emit = connection.prepare(&sql).await.expect("prepare");
                    let mut emitted = Vec::new();
                    for number in (first..events).step_by(connections) {
                        sleep_until(start + Duration::from_nanos(1_000_000_000 * number / rate)).await;
                        let parameter = i32::try_from(number).expect("far fewer events");
                        let called = std::time::Instant::now();
                        let row = connection.query_one(&emit, &[&parameter]).await.expect("an event");
                        let committed = std::time::Instant::now();
                        let place = count.add(1);
                        emitted.push(Emitted { number, place, id: row.get(0), called, committed });
                    }
                    emitted
                })
            })
            .collect();
        let mut emitted = Vec::new();
        for session in sessions {
            emitted.extend(session.await.expect("the emitter"));
        }
        self.count.end();
        emitted
    }
}
