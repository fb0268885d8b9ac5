//! What it costs delivery to be watched: a relay whose metrics are scraped and whose dashboard is open, one that has both and is asked
//! by nobody, and one without either.
//!
//! A machine's speed swings more than the three differ. So they take turns of two seconds in the midst of one load, first in one order
//! and then in the reverse, and each such round gives a ratio of its own.

mod depth;
mod watchers;

use std::time::Duration;

use harness::{RelayBuilder, Stack, eventually, free_port};

use self::{depth::Depth, watchers::Watchers};
use crate::{
    bench::Bench,
    emitted::Emitted,
    latency::through,
    load::{Load, Payload, emitters},
    report::Report,
    socket::{Queue, QueueType},
    throughput::{EMITTERS, MANY_KEYS, trial::Trial},
};

const SECTION: &str = "watched";
/// Rounds for every run of other figures: small differences need many.
const ROUNDS: usize = 4;
/// Milliseconds.
const TURN: u64 = 2000;
/// Events of a backlog that lasts for a round of six turns, each with a relay's start.
const BACKLOG: u64 = 450_000;
/// Events a second of the latency.
const RATE: u64 = 1000;

const LOAD: Load = Load { payload: Payload::B200, keys: MANY_KEYS };

/// A relay, and who asks it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Without metrics and without a dashboard.
    Without,
    /// With both, and nobody asks.
    Unwatched,
    /// With both, scraped and looked at.
    Watched,
}

impl Way {
    const ALL: [Self; 3] = [Self::Without, Self::Unwatched, Self::Watched];

    fn name(self) -> &'static str {
        match self {
            Self::Without => "without metrics",
            Self::Unwatched => "asked by nobody",
            Self::Watched => "watched",
        }
    }

    /// The relay, and where it listens.
    fn relay(self, bench: &Bench, stack: &Stack, monitor: &str) -> (RelayBuilder, u16) {
        let (relay, port) = (bench.relay(stack), free_port());
        if self == Self::Without {
            return (relay, port);
        }
        let relay = relay.set("http-listen", &format!("127.0.0.1:{port}"));
        (relay.set("dashboard-database-url", monitor), port)
    }

    fn watchers(self, port: u16) -> Option<Watchers> {
        (self == Self::Watched).then(|| Watchers::of(port))
    }
}

/// Everything of this section.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    let cases = ["backlog, quorum, 200 B", "live, quorum, 200 B", "latency, classic, 200 B, 1000/s"];
    let [backlog, live, latency] = cases.map(|case| bench.wants(case).then_some(case));
    for round in 0..bench.runs * ROUNDS {
        if let Some(case) = backlog {
            let turns = worked_off(bench, round).await;
            compare(report, case, &turns, [(Way::Unwatched, Way::Without), (Way::Watched, Way::Without)]);
        }
        if let Some(case) = live {
            let turns = emitted_meanwhile(bench, round).await;
            compare(report, case, &turns, [(Way::Watched, Way::Unwatched)]);
        }
    }
    if let Some(case) = latency {
        for pair in 0..bench.runs {
            for way in in_order(&[Way::Without, Way::Watched], pair).take(2) {
                latency_of(bench, report, case, way).await;
            }
        }
        let median = |way| report.figure(SECTION, &name(case, way), "p50").expect("was measured").median();
        let ratio = median(Way::Watched) / median(Way::Without);
        report.add(SECTION, &name(case, Way::Watched), "of without metrics", "×", ratio);
    }
}

fn name(case: &str, way: Way) -> String {
    format!("{case}, {}", way.name())
}

/// There and back again; every other time back first.
fn in_order(ways: &[Way], round: usize) -> impl Iterator<Item = Way> {
    let mut there = ways.to_vec();
    if !round.is_multiple_of(2) {
        there.reverse();
    }
    let back: Vec<_> = there.iter().copied().rev().collect();
    there.into_iter().chain(back)
}

/// Relays of each way take turns at one backlog. Returns messages a second of each turn.
async fn worked_off(bench: &Bench, round: usize) -> Vec<(Way, f64)> {
    let trial = Trial::prepare(bench, QueueType::Quorum).await;
    let events = bench.amount(BACKLOG);
    LOAD.emit(&trial.stack.db, events).await;
    let mut depth = Depth::of(trial.stack.vhost.url(), Queue::of_relay(QueueType::Quorum)).await;
    let monitor = trial.stack.monitor_url().await;
    let mut turns = Vec::new();
    for way in in_order(&Way::ALL, round) {
        let before = depth.now().await;
        let (relay, port) = way.relay(bench, &trial.stack, &monitor);
        let relay = relay.spawn();
        let watchers = way.watchers(port);
        eventually("the relay delivers", Duration::from_secs(60), async || {
            let now = depth.now().await;
            if now > before || now >= events { Ok(()) } else { Err(relay.log_text()) }
        })
        .await;
        turns.push((way, depth.rate_over(turn(bench)).await));
        drop(watchers);
        relay.stop().await;
    }
    assert!(bench.is_quick() || depth.now().await < events, "the backlog did not last for a round");
    turns
}

/// One relay while clients emit as fast as they can, watched and not. Returns messages a second of each turn.
async fn emitted_meanwhile(bench: &Bench, round: usize) -> Vec<(Way, f64)> {
    let trial = Trial::prepare(bench, QueueType::Quorum).await;
    let sessions = emitters(&trial.stack.db, EMITTERS).await;
    let (relay, port) = Way::Unwatched.relay(bench, &trial.stack, &trial.stack.monitor_url().await);
    let relay = relay.start().await;
    let mut depth = Depth::of(trial.stack.vhost.url(), Queue::of_relay(QueueType::Quorum)).await;
    let ways: Vec<_> = in_order(&[Way::Unwatched, Way::Watched], round).collect();
    let emitted = Emitted::default();
    let turns = u32::try_from(ways.len()).expect("few");
    let emit = LOAD.emit_live(&sessions, turn(bench) * (turns + 1), &emitted); // one to get going
    let measure = async {
        depth.rate_over(turn(bench)).await;
        let mut rates = Vec::new();
        for way in ways {
            let _watchers = way.watchers(port);
            rates.push((way, depth.rate_over(turn(bench)).await));
        }
        rates
    };
    let ((), rates) = tokio::join!(emit, measure);
    relay.stop().await;
    rates
}

fn turn(bench: &Bench) -> Duration {
    Duration::from_millis(bench.amount(TURN))
}

/// Reports each turn, and one way's rate beside another's in this round.
fn compare<const N: usize>(report: &mut Report, case: &str, turns: &[(Way, f64)], pairs: [(Way, Way); N]) {
    for (way, rate) in turns {
        println!("  {}: {rate:.0}/s", name(case, *way));
        report.add(SECTION, &name(case, *way), "rate", "/s", *rate);
    }
    let sum = |of: Way| -> f64 { turns.iter().filter(|(way, _)| *way == of).map(|(_, rate)| rate).sum() };
    for (way, than) in pairs {
        report.add(SECTION, &name(case, way), &format!("of {}", than.name()), "×", sum(way) / sum(than));
    }
}

async fn latency_of(bench: &Bench, report: &mut Report, case: &str, way: Way) {
    let stack = bench.stack().await;
    let (relay, port) = way.relay(bench, &stack, &stack.monitor_url().await);
    let _watchers = way.watchers(port);
    let percentiles = through(bench, &stack, &relay, RATE).await;
    let case = name(case, way);
    println!("  {case}: p50 {:.2} ms, p99 {:.2} ms", percentiles.p50, percentiles.p99);
    report.add(SECTION, &case, "p50", "ms", percentiles.p50);
    report.add(SECTION, &case, "p99", "ms", percentiles.p99);
}
