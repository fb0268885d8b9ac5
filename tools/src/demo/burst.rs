//! Step 3: many clients at once.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use harness::SOON;
use uuid::Uuid;

use crate::{
    broker::Arrival,
    demo::Demo,
    load::{self, EVENTS, Emitted, Load},
    rows,
    screen::{count, duration},
};

const LOAD: Load = Load { clients: 4, transactions: 600, first_order: 10_000 };

/// A burst, and how soon each of its events arrived.
pub(crate) async fn show(demo: &mut Demo) {
    demo.screen.step("A burst from a second program");
    demo.screen.line(&format!(
        "{} connections, {} transactions each: an order and {EVENTS} events; every tenth is rolled back",
        LOAD.clients, LOAD.transactions
    ));
    let before = demo.broker.count();
    let clients = load::start(&demo.db, &LOAD).await;
    let begin = Instant::now();
    let emitted = load::finish(clients).await;
    let committed = begin.elapsed();
    demo.record(&emitted);
    let ids: Vec<Uuid> = emitted.committed.iter().map(|(id, _)| *id).collect();
    let deliveries = demo.broker.wait_for_ids(&ids, SOON).await;
    let delivered = begin.elapsed();
    rows::wait_for_sent(&demo.db, demo.committed.len(), SOON).await;
    let sent = begin.elapsed();

    demo.screen.timed("committed", &format!("{} events", count(ids.len())), committed);
    demo.screen.timed(
        "delivered",
        &format!("{} events a second, end to end", per_second(ids.len(), delivered)),
        delivered,
    );
    demo.screen.timed("SENT", "all rows", sent);
    let deliveries = deliveries.get(before..).unwrap_or_default();
    let latencies = latencies(&emitted, deliveries);
    demo.screen.fact("COMMIT to consumer", &summary(&latencies));
    if cfg!(debug_assertions) {
        demo.screen.fact("", "(debug build, sharing the machine with both servers; `make bench` measures)");
    }

    demo.screen.promise("every committed event arrived once, no other did", deliveries.len(), ids.len());
    demo.screen.promise("each order's events arrived in order", out_of_order(deliveries), 0);
}

/// From sending COMMIT to the first arrival, sorted.
fn latencies(emitted: &Emitted, deliveries: &[Arrival]) -> Vec<Duration> {
    let arrived: HashMap<Uuid, &Arrival> = deliveries.iter().rev().map(|delivery| (delivery.id, delivery)).collect();
    let since = |(id, commit_at): &(Uuid, _)| Some(arrived.get(id)?.since(*commit_at));
    let mut latencies: Vec<Duration> = emitted.committed.iter().filter_map(since).collect();
    latencies.sort_unstable();
    latencies
}

fn summary(sorted: &[Duration]) -> String {
    let at = |per_mille: usize| {
        let place = (sorted.len() * per_mille / 1000).min(sorted.len().saturating_sub(1));
        sorted.get(place).map_or("none".to_owned(), |latency| duration(*latency))
    };
    format!("p50 {}   p99 {}   slowest {}", at(500), at(990), at(1000))
}

fn per_second(events: usize, time: Duration) -> String {
    let events = u32::try_from(events).unwrap_or(u32::MAX);
    // Truncated: a rate needs no fraction.
    count((f64::from(events) / time.as_secs_f64()) as usize)
}

/// How many events arrived, for the first time, after a later one of the same key.
pub(crate) fn out_of_order(deliveries: &[Arrival]) -> usize {
    let mut latest: HashMap<Option<(String, String)>, Option<i64>> = HashMap::new();
    let mut seen = HashSet::new();
    deliveries
        .iter()
        .filter(|delivery| seen.insert(delivery.id))
        .filter(|delivery| {
            let before = latest.insert(delivery.key.clone(), delivery.seq);
            before.is_some_and(|before| before >= delivery.seq)
        })
        .count()
}
