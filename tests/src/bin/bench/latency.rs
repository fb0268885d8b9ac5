//! How long after its commit an event reaches a consumer: decoding (or the wait for the next poll), publishing, the broker
//! and delivery.
//!
//! Events come at a steady rate by the clock, however long each takes, from as many connections as it needs that a slow
//! commit delays no other. Each is a transaction of its own.

mod emitter;
mod percentiles;

use std::{
    collections::HashMap,
    sync::mpsc,
    time::{Duration, Instant},
};

use harness::{RelayBuilder, Stack};

use crate::{
    bench::Bench,
    ceiling::on_own_thread,
    emitted::Emitted,
    load::Payload,
    peer::{self, Peer},
    poller::{self, Poller, Polling, Publishing},
    report::Report,
    socket::{self, Acks, Consumer, Link, Queue, QueueType, Says},
};
use emitter::Emitter;
pub(crate) use percentiles::Percentiles;

/// Length of the outbox's own runs, in seconds.
const SECONDS: u64 = 15;
/// Length of the baselines' runs, in seconds.
const BASELINE_SECONDS: u64 = 10;
/// What of each run is left out at its begin, in seconds.
const WARM_UP_SECONDS: u64 = 2;
/// Events a second where the maximum was not measured.
pub(crate) const HALF_OF_MAXIMUM: u64 = 5_000;
/// When nothing has come for so long, nothing will: a poller's longest pause is 1 s.
const QUIET: Duration = Duration::from_secs(10);

/// One call that is one event; the parameter is its number.
const EMIT: &str = "SELECT outbox.emit('order.moved', json_build_object('order', $1::int, 'text', repeat('x', 170)),
                                       'OrderMoved', 'order', ($1::int % 1000)::text)";

/// All rates and baselines in turn, `bench.runs` times.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    let half = half_of_maximum(report);
    let peer = peer::install();
    for _ in 0..bench.runs {
        let ours = once(bench, report, half).await;
        let mut baseline = |name: &str, theirs: &Percentiles| {
            let case = format!("{name}, 100/s");
            theirs.add(report, &case);
            report.add("latency", &case, "outbox is faster by", "×", theirs.p50 / ours);
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            report.add("latency", &case, "never arrived", "events", theirs.never_arrived as f64);
        };
        for (name, milliseconds) in [("poller every 1 s", 1000), ("poller every 50 ms", 50)] {
            if !bench.wants(name) {
                continue;
            }
            baseline(name, &polled(bench, Duration::from_millis(milliseconds)).await);
        }
        if let Some(peer) = peer.as_ref().filter(|_| bench.wants(peer::NAME)) {
            baseline(peer::NAME, &replicated(bench, peer).await);
        }
    }
}

/// The outbox at each rate. Returns its median at the lowest, in milliseconds.
pub(crate) async fn once(bench: &Bench, report: &mut Report, half_of_maximum: u64) -> f64 {
    let mut at_lowest = f64::NAN;
    for (case, rate) in [("100/s", 100), ("1000/s", 1000), ("half of maximum", half_of_maximum)] {
        let name = format!("outbox, {case}");
        if !bench.wants(&name) {
            continue;
        }
        let percentiles = outbox(bench, rate).await;
        percentiles.add(report, &name);
        if rate == 100 {
            at_lowest = percentiles.p50;
        }
        if rate == half_of_maximum && bench.wants("broker alone") {
            let alone = broker_alone(bench, rate).await;
            alone.add(report, &format!("broker alone, {case}"));
            report.add("latency", &name, "p99 of the broker alone's", "×", percentiles.p99 / alone.p99);
        }
    }
    at_lowest
}

fn half_of_maximum(report: &Report) -> u64 {
    let maximum = report.figure("throughput", "live, classic, 200 B, 100000 keys", "rate");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "events a second")]
    maximum.map_or(HALF_OF_MAXIMUM, |rate| (rate.median() / 2.0) as u64)
}

async fn outbox(bench: &Bench, rate: u64) -> Percentiles {
    let stack = bench.stack().await;
    through(bench, &stack, &bench.relay(&stack), rate).await
}

/// What `relay` delivers.
pub(crate) async fn through(bench: &Bench, stack: &Stack, relay: &RelayBuilder, rate: u64) -> Percentiles {
    let arrivals = Arrivals::of(stack);
    let _relay = relay.start().await;
    let percentiles = arrivals.after(bench, stack, EMIT, rate, SECONDS).await;
    assert_eq!(percentiles.never_arrived, 0, "the outbox loses no event");
    percentiles
}

/// From commits at the same rate to the consumer, through a relay that costs nothing and takes no time.
async fn broker_alone(bench: &Bench, rate: u64) -> Percentiles {
    let stack = bench.stack().await;
    let arrivals = Arrivals::of(&stack);
    let (queue, url, count) = (Queue::of_relay(QueueType::Classic), stack.vhost.url(), Emitted::default());
    let counted = count.clone();
    let publisher = on_own_thread(move || {
        let mut link = Link::open(&url);
        socket::publish_at_once(&mut link, &queue.exchange, Payload::B200.bytes(), Says::ALL, &counted);
        link
    });
    let (mut emitted, _link) = tokio::join!(emit(bench, &stack, EMIT, rate, SECONDS, count), publisher);
    for event in &mut emitted {
        event.id = socket::id_of(event.place);
    }
    arrivals.compare(&emitted, SECONDS)
}

async fn polled(bench: &Bench, interval: Duration) -> Percentiles {
    let stack = bench.stack().await;
    stack.db.batch_execute(poller::TABLE).await.expect("the poller's table");
    let arrivals = Arrivals::of(&stack);
    let polling = Polling { publishing: Publishing::Batched, batch: 500, interval };
    let _poller = Poller::start(polling, &stack).await;
    arrivals.after(bench, &stack, poller::INSERT_ONE, 100, BASELINE_SECONDS).await
}

async fn replicated(bench: &Bench, peer: &peer::Installed) -> Percentiles {
    let stack = bench.stack().await;
    peer.set_up(&stack).await;
    let arrivals = Arrivals::of(&stack);
    let _peer = Peer::start(peer, &stack);
    arrivals.after(bench, &stack, peer::INSERT_ONE, 100, BASELINE_SECONDS).await
}

/// What a consumer gets, and when.
struct Arrivals {
    received: mpsc::Receiver<(uuid::Uuid, Instant)>,
    _consumer: Consumer,
}

impl Arrivals {
    fn of(stack: &Stack) -> Self {
        let (sender, received) = mpsc::channel();
        let queue = Queue::of_relay(QueueType::Classic);
        let consumer = Consumer::start(&stack.vhost.url(), &queue, Acks::No, move |delivery| {
            let _ = sender.send((delivery.id, delivery.at));
        });
        Self { received, _consumer: consumer }
    }

    /// Emits by `sql` at a rate for so long, waits until all has arrived, and compares.
    async fn after(self, bench: &Bench, stack: &Stack, sql: &str, rate: u64, seconds: u64) -> Percentiles {
        let emitted = emit(bench, stack, sql, rate, seconds, Emitted::default()).await;
        self.compare(&emitted, seconds)
    }

    /// Waits until all of what was emitted for so long has arrived. What came in the warm-up does not count.
    fn compare(self, emitted: &[emitter::Emitted], seconds: u64) -> Percentiles {
        let warm_up = emitted.len() as u64 * WARM_UP_SECONDS / (WARM_UP_SECONDS + seconds);
        let mut first = HashMap::new();
        while first.len() < emitted.len() {
            let Ok((id, at)) = self.received.recv_timeout(QUIET) else {
                break;
            };
            first.entry(id).or_insert(at); // a second time is another matter
        }
        let measured = emitted.iter().filter(|event| event.number >= warm_up);
        Percentiles::of(measured.map(|event| (event, first.get(&event.id).copied())))
    }
}

/// Emits by `sql` at a rate for so long, and for the warm-up.
async fn emit(
    bench: &Bench,
    stack: &Stack,
    sql: &str,
    rate: u64,
    seconds: u64,
    count: Emitted,
) -> Vec<emitter::Emitted> {
    let events = bench.amount(rate * (WARM_UP_SECONDS + seconds));
    Emitter::open(stack, sql, rate, count).await.emit(events).await
}
