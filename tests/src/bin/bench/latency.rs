//! From the moment a client sends `SELECT outbox.emit(…)`, which commits by itself, to the consumer: emit, commit with
//! fsync, decoding, publishing and delivery.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use harness::Stack;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

const SECONDS: u32 = 10;

/// One client's events at a steady rate.
pub(crate) async fn at(stack: &Stack, per_second: u32) -> Value {
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let _relay = stack.relay().start().await;
    let emit = stack
        .db
        .prepare("SELECT outbox.emit('order.moved', jsonb_build_object('text', repeat('x', 270)), aggregate_type => 'order', aggregate_id => ($1::int % 1000)::text)")
        .await
        .expect("prepare");
    let start = Instant::now();
    let mut sent: HashMap<Uuid, SystemTime> = HashMap::new();
    for number in 0..per_second * SECONDS {
        sleep_until(start + Duration::from_secs(1) * number / per_second).await;
        let at = SystemTime::now();
        let id = stack.db.query_one(&emit, &[&number.cast_signed()]).await.expect("emit").get(0);
        sent.insert(id, at);
    }
    let deliveries = consumer.wait_for(sent.len()).await;
    let mut latencies: Vec<Duration> =
        deliveries.iter().filter_map(|delivery| Some(delivery.since(*sent.get(&delivery.id)?))).collect();
    latencies.sort_unstable();
    let percentile = |part: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = ((latencies.len() - 1) as f64 * part) as usize;
        latencies.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    };
    let (p50, p99, p999) = (percentile(0.5), percentile(0.99), percentile(0.999));
    println!("{per_second:>7}/s: emit to consumer p50 {p50:.2} ms  p99 {p99:.2} ms  p99.9 {p999:.2} ms");
    json!({ "what": "emit to consumer", "per_second": per_second, "p50_ms": p50, "p99_ms": p99, "p999_ms": p999 })
}
