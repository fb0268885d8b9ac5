//! The polling relay as the field writes it, and written well: prepared statements, persistent connections, mandatory and
//! persistent messages, confirms awaited, nothing marked that the broker does not have.
//!
//! `SELECT … FOR UPDATE SKIP LOCKED`, publish, `UPDATE`, `COMMIT`; a full batch is followed by the next at once, any other
//! by a pause. It runs on a thread of its own with a runtime of its own.

mod publishing;
mod table;

use std::{thread, time::Duration};

use harness::{Connection, Stack};
use tokio::sync::{oneshot, watch};
use tokio_postgres::Row;
use uuid::Uuid;

use publishing::Publisher;
pub(crate) use table::{INSERT_ONE, TABLE, TABLE_NAME, insert};

const SELECT: &str = "SELECT id, topic, event_type, aggregate_type, aggregate_id, payload::text, created_at
                      FROM bench.outbox WHERE status = 'PENDING' ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED";

/// What pollers differ in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polling {
    /// What is done together.
    pub(crate) publishing: Publishing,
    /// Rows taken by one `SELECT`.
    pub(crate) batch: i64,
    /// The pause after a batch that was not full.
    pub(crate) interval: Duration,
}

/// How a batch is worked off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publishing {
    /// Each event is published, its confirm awaited and its row updated before the next.
    OneAtATime,
    /// All are published, all confirms awaited, and one `UPDATE` marks them.
    Batched,
}

impl Polling {
    /// In the report.
    pub(crate) fn name(self) -> String {
        let every = match self.interval.as_millis() {
            1000 => "1 s".to_owned(),
            ms => format!("{ms} ms"),
        };
        match self.publishing {
            Publishing::OneAtATime => format!("poller, one at a time, every {every}"),
            Publishing::Batched => format!("poller, batches of {}, every {every}", self.batch),
        }
    }
}

/// One that runs, until it is dropped.
pub(crate) struct Poller {
    sent: watch::Receiver<u64>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Poller {
    /// Starts it, and waits until it is connected.
    pub(crate) async fn start(polling: Polling, stack: &Stack) -> Self {
        let (sender, mut sent) = watch::channel(0);
        let (stop, stopped) = oneshot::channel();
        let (database, broker) = (stack.db.url().to_owned(), stack.vhost.url());
        let work = async move {
            let poll = async {
                let poller = Session::open(polling, &database, &broker).await;
                sender.send_replace(0);
                poller.run(&sender).await;
            };
            tokio::select! {
                () = poll => {}
                _ = stopped => {}
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let thread = thread::spawn(move || runtime.block_on(work));
        sent.changed().await.expect("the poller has not failed");
        Self { sent, stop: Some(stop), thread: Some(thread) }
    }

    /// Waits until it has marked so many events as SENT.
    pub(crate) async fn sent(&mut self, events: u64) {
        self.sent.wait_for(|sent| *sent >= events).await.expect("the poller has not failed");
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic has been printed
        }
    }
}

/// Its two connections.
struct Session {
    polling: Polling,
    db: Connection,
    publisher: Publisher,
}

impl Session {
    async fn open(polling: Polling, database: &str, broker: &str) -> Self {
        Self { polling, db: Connection::open(database).await, publisher: Publisher::open(broker).await }
    }

    async fn run(mut self, sent: &watch::Sender<u64>) {
        let select = self.db.prepare(SELECT).await.expect("prepare");
        let mark = match self.polling.publishing {
            Publishing::OneAtATime => "UPDATE bench.outbox SET status = 'SENT', sent_at = now() WHERE id = $1",
            Publishing::Batched => "UPDATE bench.outbox SET status = 'SENT', sent_at = now() WHERE id = ANY ($1)",
        };
        let mark = self.db.prepare(mark).await.expect("prepare");
        loop {
            let transaction = self.db.transaction().await.expect("BEGIN");
            let rows = transaction.query(&select, &[&self.polling.batch]).await.expect("SELECT");
            match self.polling.publishing {
                Publishing::OneAtATime => {
                    for row in &rows {
                        self.publisher.publish_all(std::slice::from_ref(row)).await;
                        transaction.execute(&mark, &[&id(row)]).await.expect("UPDATE");
                    }
                }
                Publishing::Batched => {
                    self.publisher.publish_all(&rows).await;
                    let ids: Vec<Uuid> = rows.iter().map(id).collect();
                    transaction.execute(&mark, &[&ids]).await.expect("UPDATE");
                }
            }
            transaction.commit().await.expect("COMMIT");
            sent.send_modify(|sent| *sent += rows.len() as u64);
            if rows.len() as i64 != self.polling.batch {
                tokio::time::sleep(self.polling.interval).await;
            }
        }
    }
}

fn id(row: &Row) -> Uuid {
    row.get("id")
}
