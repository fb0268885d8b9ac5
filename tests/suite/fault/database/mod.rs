//! The database fails.

mod account;
mod backends;
mod conflict;
mod connections;
mod extension;
mod failover;
mod gap;
mod guard;
mod load;
mod lock;
mod phantom;
mod read_only;
mod refused;
mod restart;
mod rows;
mod sequence;
mod slot;
mod synchronous;
mod transactions;
mod unpublished;

use std::time::Duration;

use harness::{Connection, Relay, RelayBuilder, SOON, Stack, eventually};
use tokio_postgres::Client;
use uuid::Uuid;

use self::{account::check, load::Load};

/// For what has to wait for several sessions of the relay, whose pauses grow.
const LATER: Duration = Duration::from_secs(60);

/// A relay that has little in flight, so that a lost session can repeat little.
fn relay(stack: &Stack) -> RelayBuilder {
    stack.relay().set("in-flight", "66")
}

/// What a lost session may repeat, with these settings: three times `in_flight`.
const REPEATED: usize = 3 * 66;

/// Sessions with the database that the relay has lost so far.
fn lost_sessions(relay: &Relay) -> usize {
    relay.log_lines().iter().filter(|line| line.contains("the session ended")).count()
}

async fn run(db: &Client, sql: &str) {
    db.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

async fn number(db: &Client, sql: &str) -> i64 {
    db.query_one(&format!("SELECT ({sql})::bigint"), &[]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}")).get(0)
}

/// Events of a topic and a key of their own: `n` is their number in commit order.
async fn emit(db: &Client, key: &str, n: i64) -> Uuid {
    let sql = "SELECT outbox.emit('t', jsonb_build_object('n', $2::bigint), aggregate_type => 'a', aggregate_id => $1)";
    db.query_one(sql, &[&key, &n]).await.unwrap().get(0)
}

/// Waits until `sql`, a condition, holds.
async fn wait_until(db: &Client, what: &str, sql: &str) {
    eventually(what, SOON, async || match number(db, &format!("CASE WHEN {sql} THEN 1 ELSE 0 END")).await {
        1 => Ok(()),
        _ => Err(format!("not: {sql}")),
    })
    .await;
}

async fn wait_until_sent(db: &Client, count: i64) {
    let sql = "SELECT count(*) FILTER (WHERE status = 'SENT'), count(*) FROM outbox.events";
    eventually(&format!("{count} events are SENT, and there are no others"), LATER, async || {
        let row = db.query_one(sql, &[]).await.unwrap();
        let seen: (i64, i64) = (row.get(0), row.get(1));
        if seen == (count, count) { Ok(()) } else { Err(seen) }
    })
    .await;
}

/// No event was attempted twice.
async fn assert_one_attempt(db: &Client) {
    let sql = "SELECT count(*) FROM outbox.events WHERE attempts <> 1 OR last_error IS NOT NULL";
    assert_eq!(number(db, &format!("({sql})")).await, 0, "events with another number of attempts than one");
}

/// A role that may do what a relay must, and no more. Its settings are its own, unlike a superuser's.
async fn relay_role(db: &harness::Database) -> String {
    let role = format!("relay_{}", db.name());
    let sql = format!(
        "DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN REPLICATION; SELECT outbox.grant_relay('{role}')"
    );
    run(db, &sql).await;
    role
}

async fn drop_role(stack: &Stack, role: &str) {
    run(&stack.db, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// Ends the relay's sessions of these kinds (`client backend`, `walsender`); returns how many there were.
async fn terminate(db: &Connection, kinds: &[&str]) -> i64 {
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'outbox-relay' AND backend_type = ANY ($1)";
    db.query_one(sql, &[&kinds]).await.unwrap().get(0)
}
