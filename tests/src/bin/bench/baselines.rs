//! A backlog drained by the outbox, and by what one would use without it.
//!
//! Every relay has the same events to send (200 B), with the same properties, to a durable queue that nobody reads, and is done
//! when each row says that its event was sent. A classic queue takes little more than the best poller sends; on a quorum queue
//! it is the relays that make the difference. The others are timed from the moment they are connected, the outbox from the start of its
//! process. What an event costs is shown for the outbox and for the best of the others, the poller in Go.

use std::time::{Duration, Instant};

use harness::{Connection, Stack, eventually};

use crate::{
    bench::Bench,
    ceiling::quiet,
    cost::{Cost, Reading},
    cpu, go_poller,
    peer::{self, Peer},
    poller::{self, Poller, Polling, Publishing},
    report::Report,
    socket::{Link, Queue, QueueType},
};

/// No drain takes longer.
const LONG: Duration = Duration::from_secs(300);
/// Events for the outbox: some 3 s of work, as for all the others.
const OUTBOX_EVENTS: u64 = 100_000;
/// Events for the poller in Go.
const GO_EVENTS: u64 = 100_000;
/// Events for `pg-transactional-outbox`.
const PEER_EVENTS: u64 = 6_000;

/// The pollers, and how many events they have for some 4 s of work.
const POLLERS: [(Polling, u64); 6] = {
    const fn polling(publishing: Publishing, batch: i64, milliseconds: u64) -> Polling {
        Polling { publishing, batch, interval: Duration::from_millis(milliseconds) }
    }
    [
        (polling(Publishing::OneAtATime, 100, 1000), 5_000),
        (polling(Publishing::OneAtATime, 100, 50), 5_000),
        (polling(Publishing::Batched, 100, 1000), 30_000),
        (polling(Publishing::Batched, 100, 50), 30_000),
        (polling(Publishing::Batched, 500, 1000), 50_000),
        (polling(Publishing::Batched, 500, 50), 50_000),
    ]
};

/// A drained backlog.
struct Drained {
    /// Events a second.
    rate: f64,
    /// What an event has cost relay and PostgreSQL, in microseconds.
    cpu: Option<(f64, f64)>,
}

impl Drained {
    fn rate(rate: f64) -> Self {
        Self { rate, cpu: None }
    }

    fn with_cost(rate: f64, cost: &Cost, events: u64) -> Self {
        let cpu = (cpu::us_per_event(cost.relay, events), cpu::us_per_event(cost.postgres(), events));
        Self { rate, cpu: Some(cpu) }
    }
}

/// All of them in turn, `bench.runs` times.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    let peer = peer::install().filter(|_| bench.wants(peer::NAME));
    let in_go = go_poller::build().filter(|_| bench.wants(go_poller::NAME));
    outbox(bench, QueueType::Classic, bench.amount(OUTBOX_EVENTS / 5)).await; // warm-up
    for _ in 0..bench.runs {
        for queue in [QueueType::Classic, QueueType::Quorum] {
            let ours = outbox(bench, queue, bench.amount(OUTBOX_EVENTS)).await;
            add(report, queue, "outbox", &ours, ours.rate);
            for (polling, events) in POLLERS.into_iter().filter(|(polling, _)| bench.wants(&polling.name())) {
                let theirs = polled(bench, queue, polling, bench.amount(events)).await;
                add(report, queue, &polling.name(), &theirs, ours.rate);
            }
            if let Some(in_go) = &in_go {
                let theirs = polled_in_go(bench, queue, in_go, bench.amount(GO_EVENTS)).await;
                add(report, queue, go_poller::NAME, &theirs, ours.rate);
            }
            if let Some(peer) = &peer {
                let theirs = replicated(bench, queue, peer, bench.amount(PEER_EVENTS)).await;
                add(report, queue, peer::NAME, &theirs, ours.rate);
            }
        }
    }
}

fn add(report: &mut Report, queue: QueueType, relay: &str, drained: &Drained, ours: f64) {
    let case = &format!("{queue}, {relay}");
    let Drained { rate, cpu } = *drained;
    report.add("baselines", case, "rate", "/s", rate);
    report.add("baselines", case, "outbox is faster by", "×", ours / rate);
    let mut costs = String::new();
    if let Some((relay, postgres)) = cpu {
        report.add("baselines", case, "relay CPU", "µs", relay);
        report.add("baselines", case, "PostgreSQL CPU", "µs", postgres);
        costs = format!("; µs an event: relay {relay:.1}, PostgreSQL {postgres:.1}");
    }
    println!("{case:<50} {rate:>8.0}/s  outbox is faster by {:>6.1} ×{costs}", ours / rate);
}

async fn outbox(bench: &Bench, queue: QueueType, events: u64) -> Drained {
    let stack = with_queue(bench, queue).await;
    let emit = format!(
        "SELECT count(outbox.emit('order.moved', json_build_object('order', i, 'text', repeat('x', 170)),
                                  'OrderMoved', 'order', (i % 1000)::text))
         FROM generate_series(1, {events}) AS i"
    );
    stack.db.batch_execute(&emit).await.expect("a backlog");
    quiet(&stack.db).await;
    let before = Reading::take(bench, &stack.db, None).await;
    let start = Instant::now();
    let relay = bench.relay(&stack).spawn();
    // The newest first: until the end it is PENDING, and found at once.
    stack.db.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").await.expect("settings");
    let newest =
        "SELECT FROM outbox.events WHERE status = 'PENDING' AND available_at IS NULL ORDER BY seq DESC LIMIT 1";
    none_left(&stack.db, newest).await;
    let rate = per_second(events, start);
    Drained::with_cost(rate, &Cost::since(&before, bench, &stack.db, relay.pid()).await, events)
}

async fn polled(bench: &Bench, queue: QueueType, polling: Polling, events: u64) -> Drained {
    let stack = with_queue(bench, queue).await;
    stack.db.batch_execute(poller::TABLE).await.expect("the poller's table");
    poller::insert(&stack.db, poller::TABLE_NAME, events).await;
    quiet(&stack.db).await;
    let start = Instant::now();
    let mut poller = Poller::start(polling, &stack).await;
    poller.sent(events).await;
    Drained::rate(per_second(events, start))
}

async fn polled_in_go(bench: &Bench, queue: QueueType, in_go: &go_poller::Built, events: u64) -> Drained {
    let stack = with_queue(bench, queue).await;
    stack.db.batch_execute(go_poller::TABLE).await.expect("its table");
    poller::insert(&stack.db, go_poller::TABLE_NAME, events).await;
    quiet(&stack.db).await;
    stack.db.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").await.expect("settings");
    let before = Reading::take(bench, &stack.db, None).await;
    let poller = in_go.start(&stack);
    let start = Instant::now();
    none_left(&stack.db, go_poller::UNSENT).await;
    let rate = per_second(events, start);
    Drained::with_cost(rate, &Cost::since(&before, bench, &stack.db, poller.pid()).await, events)
}

async fn replicated(bench: &Bench, queue: QueueType, peer: &peer::Installed, events: u64) -> Drained {
    let stack = with_queue(bench, queue).await;
    peer.set_up(&stack).await;
    peer::insert(&stack.db, events).await;
    quiet(&stack.db).await;
    let newest = "SELECT id::text FROM outbox ORDER BY created_at DESC LIMIT 1";
    let newest: String = stack.db.query_one(newest, &[]).await.expect("the newest event").get(0);
    let _peer = Peer::start(peer, &stack);
    let start = Instant::now();
    // There is no index to ask but the primary key's: the newest first here too.
    let unsent = format!(
        "SELECT 1 FROM outbox WHERE id = '{newest}' AND processed_at IS NULL
         UNION ALL (SELECT 1 FROM outbox WHERE processed_at IS NULL LIMIT 1) LIMIT 1"
    );
    none_left(&stack.db, &unsent).await;
    Drained::rate(per_second(events, start))
}

async fn with_queue(bench: &Bench, queue: QueueType) -> Stack {
    let stack = bench.stack().await;
    Link::open(&stack.vhost.url()).declare(&Queue::of_relay(queue));
    stack
}

async fn none_left(db: &Connection, unsent: &str) {
    let unsent = db.prepare(unsent).await.expect("prepare");
    eventually("every event is marked as sent", LONG, async || {
        let left = db.query(&unsent, &[]).await.expect("a look at the table");
        if left.is_empty() { Ok(()) } else { Err("some are not") }
    })
    .await;
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per_second(events: u64, start: Instant) -> f64 {
    events as f64 / start.elapsed().as_secs_f64()
}
