//! Events per second until every row is `SENT`, and what an event costs the relay.

use std::time::{Duration, Instant};

use harness::{Connection, Relay, Stack, eventually};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(900);
/// A body of 300 bytes, and one of 1000 keys.
const EMIT: &str = "outbox.emit('order.moved', jsonb_build_object('n', i, 'text', repeat('x', 270)),
                                aggregate_type => 'order', aggregate_id => (i % 1000)::text)";

/// Rows that wait in the table when the relay starts.
pub(crate) async fn backlog(stack: &Stack, events: u64) -> Value {
    let _consumer = stack.consumer_with("#").without_bodies().start().await;
    emit(&stack.db, events).await;
    let start = Instant::now();
    let relay = stack.relay().spawn();
    measured(stack, &relay, start, events, "a backlog in the table").await
}

/// Events of one transaction, streamed after its commit.
pub(crate) async fn one_transaction(stack: &Stack, events: u64) -> Value {
    let _consumer = stack.consumer_with("#").without_bodies().start().await;
    let relay = stack.relay().start().await;
    let start = Instant::now();
    emit(&stack.db, events).await;
    measured(stack, &relay, start, events, "one transaction, its emitting included").await
}

/// Events of several clients in transactions of ten, while they emit.
pub(crate) async fn live(stack: &Stack, clients: u64, events: u64) -> Value {
    const PER_TRANSACTION: u64 = 10;
    let _consumer = stack.consumer_with("#").without_bodies().start().await;
    let relay = stack.relay().start().await;
    let start = Instant::now();
    let clients = (0..clients).map(|client| {
        let url = stack.db.url().to_owned();
        tokio::spawn(async move {
            let db = Connection::open(&url).await;
            let emit = db
                .prepare(&format!("SELECT {EMIT} FROM generate_series($1::int, $1 + {PER_TRANSACTION} - 1) i"))
                .await
                .expect("prepare");
            for transaction in 0..events / clients / PER_TRANSACTION {
                let first = i32::try_from(client * events + transaction * PER_TRANSACTION).unwrap_or(0);
                db.execute(&emit, &[&first]).await.expect("emit");
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("the emitter");
    }
    println!("  (emitted at {:.0}/s)", rate(events, start.elapsed()));
    measured(stack, &relay, start, events, "live, four clients, ten events a transaction").await
}

async fn emit(db: &Connection, events: u64) {
    let sql = format!("SELECT {EMIT} FROM generate_series(1, {events}) i");
    db.batch_execute(&sql).await.expect("emit");
}

async fn measured(stack: &Stack, relay: &Relay, start: Instant, events: u64, what: &str) -> Value {
    let pending = "SELECT count(*) FROM (SELECT FROM outbox.events WHERE status = 'PENDING' LIMIT 1) p";
    eventually("every row is SENT", LONG, async || {
        let left: i64 = stack.db.query_one(pending, &[]).await.expect("count").get(0);
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    let took = start.elapsed();
    let usage = relay.usage();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let cpu_us = usage.cpu.as_secs_f64() * 1e6 / events as f64;
    let peak_mb = usage.peak_rss_bytes / 1_000_000;
    println!(
        "{events:>9} events: {:>7.0}/s  relay CPU {cpu_us:>5.1} µs/event  peak memory {peak_mb:>3} MB  ({what})",
        rate(events, took)
    );
    json!({
        "what": what, "events": events, "seconds": took.as_secs_f64(), "events_per_second": rate(events, took).round(),
        "relay_cpu_us_per_event": cpu_us, "relay_peak_bytes": usage.peak_rss_bytes,
    })
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn rate(events: u64, took: Duration) -> f64 {
    events as f64 / took.as_secs_f64()
}
