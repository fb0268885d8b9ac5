//! Events per second until every row is `SENT`, what each costs, and how that compares with the broker alone, measured
//! just before.

use std::time::Duration;

use harness::RelayBuilder;

use self::trial::Trial;
use super::ceiling::{Broker, Ceiling, messages};
use crate::{
    bench::{Bench, quiet},
    broker::QueueType,
    emitted::Emitted,
    load::{Load, Payload, emitters},
    report::Report,
    run::{EMITTERS, LIVE_MS, MANY_KEYS},
};

mod hot_key;
mod idle;
mod trial;

pub(crate) use idle::measure as idle;

/// How events come to the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// They wait in the table when it starts.
    Backlog,
    /// They are emitted while it streams.
    Live,
}

/// Queue type, arrival, payload, keys.
type Case = (QueueType, Arrival, Payload, u64);

/// One factor at a time is varied from 200 B, 100,000 keys.
const CASES: [Case; 14] = {
    use Arrival::{Backlog, Live};
    use Payload::{B200, Kb1, Kb10};
    use QueueType::{Classic, Quorum};
    [
        (Classic, Backlog, B200, MANY_KEYS),
        (Classic, Backlog, B200, 100),
        (Classic, Backlog, B200, 1),
        (Classic, Backlog, Kb1, MANY_KEYS),
        (Classic, Backlog, Kb10, MANY_KEYS),
        (Quorum, Backlog, B200, MANY_KEYS),
        (Quorum, Backlog, B200, 100),
        (Quorum, Backlog, B200, 1),
        (Quorum, Backlog, Kb1, MANY_KEYS),
        (Quorum, Backlog, Kb10, MANY_KEYS),
        (Classic, Live, B200, MANY_KEYS),
        (Classic, Live, B200, 100),
        (Classic, Live, Kb10, MANY_KEYS),
        (Quorum, Live, B200, MANY_KEYS),
    ]
};

/// Everything of this section.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    warm_up(bench).await;
    for _ in 0..bench.runs {
        once(bench, report).await;
    }
    if bench.wants("one transaction of 1000000") {
        one_transaction(bench, report).await;
    }
}

/// Every case that can be repeated.
pub(crate) async fn once(bench: &Bench, report: &mut Report) {
    let mut of_many_keys = f64::NAN;
    for case in CASES {
        if !bench.wants(&name(case)) {
            continue;
        }
        let rate = one(bench, report, case).await;
        if case == CASES[0] {
            of_many_keys = rate;
        }
    }
    if bench.wants("pipelined, one key") {
        pipelined(bench, report, of_many_keys).await;
    }
    for case in hot_key::CASES {
        if bench.wants(case) {
            hot_key::measure(bench, report, case).await;
        }
    }
}

/// The first run finds files to be made and code to be loaded; it does not count.
pub(crate) async fn warm_up(bench: &Bench) {
    println!("  warm-up");
    let unreported = &mut Report::default();
    for queue in QueueType::ALL {
        one(bench, unreported, (queue, Arrival::Backlog, Payload::B200, MANY_KEYS)).await;
    }
}

/// One run of a case, and of the broker alone before it. Returns events per second.
async fn one(bench: &Bench, report: &mut Report, (queue, arrival, payload, keys): Case) -> f64 {
    let trial = Trial::prepare(bench, queue).await;
    let load = Load { payload, keys };
    let broker = Broker::of(queue, payload).one_in_flight_a_key(keys);
    let ceiling = broker.takes(bench, &trial.stack.vhost, bench.amount(backlog_of(load))).await;
    let case = name((queue, arrival, payload, keys));
    let rate = match arrival {
        Arrival::Backlog => {
            let events = bench.amount(backlog_of(load));
            trial.run().drain_backlog(report, &case, &load, events, &bench.relay(&trial.stack)).await
        }
        Arrival::Live => {
            let beside = broker_beside_emitters(bench, broker, &load).await;
            let rate = trial.run().live(report, &case, &load, &bench.relay(&trial.stack)).await;
            report.add("throughput", &case, "of ceiling beside emitters", "×", rate / beside.rate);
            rate
        }
    };
    report.add("throughput", &case, "of ceiling", "×", rate / ceiling.rate);
    rate
}

fn name((queue, arrival, payload, keys): Case) -> String {
    let arrival = match arrival {
        Arrival::Backlog => "backlog",
        Arrival::Live => "live",
    };
    format!("{arrival}, {queue}, {payload}, {keys} keys")
}

/// How many events are drained, and as many are given to the broker alone: how deep its queue is decides how fast it
/// is. What has a target is measured longest, so that starting the relay, which counts, weighs less.
fn backlog_of(load: Load) -> u64 {
    match load {
        Load { keys: 1, .. } => 4000, // one in flight at a time
        Load { payload: Payload::B200, keys: MANY_KEYS } => 100_000,
        Load { payload, .. } => messages(payload),
    }
}

/// The broker alone with the same clients emitting on the same cores, and a message published for each event once it is
/// committed: what there is to reach under a live load.
async fn broker_beside_emitters(bench: &Bench, broker: Broker, load: &Load) -> Ceiling {
    let stack = bench.stack().await;
    let sessions = emitters(&stack.db, EMITTERS).await;
    quiet(&stack.db).await;
    let emitted = Emitted::default();
    let emit = load.emit_live(&sessions, Duration::from_millis(bench.amount(LIVE_MS)), &emitted);
    println!("  beside emitters:");
    let ((), ceiling) = tokio::join!(emit, broker.takes_as_emitted(bench, &stack.vhost, emitted.clone()));
    ceiling
}

/// The mode for one very hot key, against many keys.
async fn pipelined(bench: &Bench, report: &mut Report, of_many_keys: f64) {
    let trial = Trial::prepare(bench, QueueType::Classic).await;
    let load = Load { payload: Payload::B200, keys: 1 };
    let relay: RelayBuilder = trial.bench.relay(&trial.stack).set("ordering", "pipelined");
    let rate = trial.run().drain_backlog(report, "pipelined, one key", &load, bench.amount(60_000), &relay).await;
    report.add("throughput", "pipelined, one key", "of many keys", "×", rate / of_many_keys);
}

/// A million events of one transaction, streamed once it has committed; once, because it takes long and what counts is
/// memory. A consumer keeps the queue short.
async fn one_transaction(bench: &Bench, report: &mut Report) {
    let trial = Trial::prepare(bench, QueueType::Classic).await;
    let events = bench.amount(1_000_000);
    let _consumer = trial.consumer().await;
    let relay = trial.bench.relay(&trial.stack).start().await;
    let emitter = emitters(&trial.stack.db, 1).await;
    let start = trial.run().begin(Some(&relay)).await;
    for emitter in &emitter {
        Load { payload: Payload::B200, keys: MANY_KEYS }.emit_at_once(emitter, events).await;
    }
    trial.run().finish(report, "one transaction of 1000000", events, &start, &relay).await;
}
