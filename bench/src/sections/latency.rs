//! How long after its commit an event reaches a consumer: decoding, publishing, the broker and delivery.
//!
//! Events come at a steady rate by the clock, however long each takes, from as many connections as it needs that a slow
//! commit delays no other. Each is a transaction of its own.

pub(crate) mod emitter;
mod percentiles;

use std::{
    collections::HashMap,
    sync::mpsc,
    time::{Duration, Instant},
};

use harness::{Database, Stack};

use crate::{
    bench::Bench,
    broker::{Consumer, Link, Queue, QueueType, id_of, on_own_thread, publish_at_once},
    emitted::Emitted,
    load::Payload,
    report::Report,
};
use emitter::Emitter;
pub(crate) use percentiles::Percentiles;

/// Where the events go.
const QUEUE: Queue = Queue::of_relay(QueueType::Classic);
/// Length of a run, in seconds.
const SECONDS: u64 = 15;
/// The beginning of each run that is left out, in seconds.
const WARM_UP_SECONDS: u64 = 2;
/// Events a second where the maximum was not measured.
pub(crate) const HALF_OF_MAXIMUM: u64 = 5_000;
/// After this time without an arrival, what is missing is taken for lost.
const QUIET: Duration = Duration::from_secs(10);

/// One call that is one event; the parameter is its number.
pub(crate) const EMIT: &str =
    "SELECT outbox.emit('order.moved', json_build_object('order', $1::int, 'text', repeat('x', 170)),
                                       'OrderMoved', 'order', ($1::int % 1000)::text)";

/// All rates in turn, `bench.runs` times.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    let half = half_of_maximum(report);
    for _ in 0..bench.runs {
        once(bench, report, half).await;
    }
}

/// The outbox at each rate.
pub(crate) async fn once(bench: &Bench, report: &mut Report, half_of_maximum: u64) {
    for (case, rate) in [("100/s", 100), ("1000/s", 1000), ("half of maximum", half_of_maximum)] {
        let name = format!("outbox, {case}");
        if !bench.wants(&name) {
            continue;
        }
        let percentiles = outbox(bench, rate).await;
        percentiles.add(report, "latency", &name);
        if rate == half_of_maximum && bench.wants("broker alone") {
            let alone = broker_alone(bench, rate).await;
            alone.add(report, "latency", &format!("broker alone, {case}"));
            report.add("latency", &name, "p99 of the broker alone's", "×", percentiles.p99 / alone.p99);
        }
    }
}

fn half_of_maximum(report: &Report) -> u64 {
    let maximum = report.figure("throughput", "live, classic, 200 B, 100000 keys", "rate");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "events a second")]
    maximum.map_or(HALF_OF_MAXIMUM, |rate| (rate.median() / 2.0) as u64)
}

async fn outbox(bench: &Bench, rate: u64) -> Percentiles {
    let stack = bench.stack().await;
    let arrivals = arrivals(&stack).await;
    let _relay = bench.relay(&stack).start().await;
    let emitted = emit(bench, &stack.db, EMIT, rate, Emitted::default()).await;
    let percentiles = arrivals.compare(&emitted);
    assert_eq!(percentiles.never_arrived, 0, "the outbox loses no event");
    percentiles
}

/// From commits at the same rate to the consumer, through a relay that costs nothing and takes no time.
async fn broker_alone(bench: &Bench, rate: u64) -> Percentiles {
    let stack = bench.stack().await;
    let arrivals = arrivals(&stack).await;
    let mut link = Link::open(&stack.vhost, QUEUE.exchange).await;
    let count = Emitted::default();
    let counted = count.clone();
    let publisher = on_own_thread(move || {
        publish_at_once(&mut link, QUEUE.exchange, Payload::B200.bytes(), &counted);
        link
    });
    let (mut emitted, _link) = tokio::join!(emit(bench, &stack.db, EMIT, rate, count), publisher);
    for event in &mut emitted {
        event.id = id_of(event.place);
    }
    arrivals.compare(&emitted)
}

async fn arrivals(stack: &Stack) -> Arrivals<Consumer> {
    let (sender, received) = mpsc::channel();
    let consumer = Consumer::start(&stack.vhost, &QUEUE, move |id, at| {
        let _ = sender.send((id, at));
    });
    Arrivals { received, _consumer: consumer.await }
}

/// What a consumer gets, and when.
pub(crate) struct Arrivals<C> {
    pub(crate) received: mpsc::Receiver<(uuid::Uuid, Instant)>,
    pub(crate) _consumer: C,
}

impl<C> Arrivals<C> {
    /// Waits until everything that was emitted has arrived. The warm-up does not count.
    pub(crate) fn compare(self, emitted: &[emitter::Emitted]) -> Percentiles {
        let warm_up = emitted.len() as u64 * WARM_UP_SECONDS / (WARM_UP_SECONDS + SECONDS);
        let mut first = HashMap::new();
        while first.len() < emitted.len() {
            let Ok((id, at)) = self.received.recv_timeout(QUIET) else {
                break;
            };
            first.entry(id).or_insert(at); // a repeated delivery does not count
        }
        let measured = emitted.iter().filter(|event| event.number >= warm_up);
        Percentiles::of(measured.map(|event| (event, first.get(&event.id).copied())))
    }
}

/// Emits at a rate for the warm-up and the run, an event by each call of `sql`, whose parameter is its number.
pub(crate) async fn emit(bench: &Bench, db: &Database, sql: &str, rate: u64, count: Emitted) -> Vec<emitter::Emitted> {
    let events = bench.amount(rate * (WARM_UP_SECONDS + SECONDS));
    Emitter::open(db, sql, rate, count).await.emit(events).await
}
