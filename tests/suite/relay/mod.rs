//! The relay as a process, between real servers.

mod crash;
mod deferred;
mod delivery;
mod encodings;
mod hold;
mod managed;
mod migrate;
mod order;
mod outage;
mod pooler;
mod rate;
mod refusal;
mod replay;
mod retention;
mod secret_files;
mod shadowed;
mod shutdown;
mod startup;
mod traces;
mod upgrade;
mod volume;
mod waiting;

use harness::{Connection, SOON, Stack, Vhost, eventually};
use serde_json::json;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Runs a SELECT of one `outbox.emit(…)`.
async fn emit(db: &Connection, arguments: &str, parameters: &[&(dyn ToSql + Sync)]) -> Uuid {
    let sql = format!("SELECT outbox.emit({arguments})");
    db.query_one(&sql, parameters).await.unwrap().get(0)
}

/// What the delivery columns of a row say.
#[derive(Debug, PartialEq)]
struct Row {
    status: String,
    attempts: i32,
    last_error: Option<String>,
    attempted: bool,
    processed: bool,
}

async fn row(db: &Connection, id: Uuid) -> Row {
    let sql = "SELECT status::text, attempts, last_error, last_attempted_at IS NOT NULL, processed_at IS NOT NULL
               FROM outbox.events WHERE id = $1";
    let row = db.query_one(sql, &[&id]).await.unwrap();
    Row {
        status: row.get(0),
        attempts: row.get(1),
        last_error: row.get(2),
        attempted: row.get(3),
        processed: row.get(4),
    }
}

async fn wait_for_status(db: &Connection, id: Uuid, status: &str) -> Row {
    eventually(&format!("event {id} is {status}"), SOON, async || {
        let row = row(db, id).await;
        if row.status == status { Ok(row) } else { Err(row) }
    })
    .await
}

/// How many rows have each status: `(PENDING, SENT, FAILED)`.
async fn counts(db: &Connection) -> (i64, i64, i64) {
    let sql = "SELECT count(*) FILTER (WHERE status = 'PENDING'), count(*) FILTER (WHERE status = 'SENT'),
                      count(*) FILTER (WHERE status = 'FAILED') FROM outbox.events";
    let row = db.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1), row.get(2))
}

pub(crate) async fn wait_for_counts(db: &Connection, expected: (i64, i64, i64), deadline: std::time::Duration) {
    eventually(&format!("(PENDING, SENT, FAILED) = {expected:?}"), deadline, async || {
        let counts = counts(db).await;
        if counts == expected { Ok(()) } else { Err(counts) }
    })
    .await;
}

/// Bytes of WAL that the test's slot still holds back: more than any, while it is being made.
async fn slot_lag(stack: &Stack) -> i64 {
    let sql =
        "SELECT coalesce(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), confirmed_flush_lsn)::bigint, 1::bigint << 62)
               FROM pg_replication_slots WHERE slot_name = $1";
    stack.db.query_one(sql, &[&stack.db.name()]).await.unwrap().get(0)
}

/// A queue that nacks every publish, since it is full.
pub(crate) struct FullQueue<'a> {
    vhost: &'a Vhost,
    path: String,
}

impl<'a> FullQueue<'a> {
    /// Binds it to the relay's default exchange by `topic`, which is its name, too.
    pub(crate) async fn bind(vhost: &'a Vhost, topic: &str) -> Self {
        let name = vhost.name();
        vhost.exchange("outbox").await;
        let path = format!("/api/queues/{name}/{topic}");
        let arguments = json!({ "x-max-length": 1, "x-overflow": "reject-publish" });
        vhost.api("PUT", &path, Some(&json!({ "durable": true, "arguments": arguments }))).await;
        let binding = format!("/api/bindings/{name}/e/outbox/q/{topic}");
        vhost.api("POST", &binding, Some(&json!({ "routing_key": topic }))).await;
        let message = json!({ "routing_key": topic, "payload": "", "payload_encoding": "string", "properties": {} });
        vhost.api("POST", &format!("/api/exchanges/{name}/outbox/publish"), Some(&message)).await;
        Self { vhost, path }
    }

    /// Room for one message.
    pub(crate) async fn make_room(&self) {
        self.vhost.api("DELETE", &format!("{}/contents", self.path), None).await;
    }
}
