//! Random work, random faults, and a checker that knows only what clients committed and what a consumer received.
//!
//! A seed is a [schedule](schedule): [client programs](program), faults with their moments, and the relay's settings. A
//! [run](run) carries it out on real servers, heals what is broken, waits until no row is `PENDING`, and has the
//! [checker](checker) compare. The schedule of a seed is always the same; servers and clocks are not, so that a seed
//! that failed may have to be run some times before it fails again.

mod broker;
mod checker;
mod clients;
mod faults;
mod late;
mod program;
mod record;
mod relays;
mod report;
mod run;
mod schedule;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use self::{report::Totals, run::Servers, schedule::Schedule};

/// `make soak SEEDS=200` asks for more runs, in several lanes with servers of their own.
#[test]
fn rabbitmq_with_random_work_and_random_faults_loses_nothing_and_breaks_no_order() {
    soak(false, 2);
}

/// `make soak SINK=kafka` asks for more runs.
#[test]
fn kafka_with_random_work_and_random_faults_loses_nothing_breaks_no_order_and_has_nothing_twice() {
    if crate::kafka::private().is_some() {
        soak(true, 1);
    }
}

/// `seeds`: how many runs there are if nobody says; a given seed is one run.
fn soak(with_kafka: bool, seeds: usize) {
    let default = if std::env::var_os("SEED").is_some() { 1 } else { seeds };
    let left = AtomicUsize::new(number("SEEDS", default));
    let lane = || {
        let _stop = StopAll(&left);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let servers = Servers::start(with_kafka).await;
            let mut totals = Totals::default();
            while left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                totals += one(&servers).await;
            }
            totals
        })
    };
    let totals = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..number("LANES", 1)).map(|_| scope.spawn(lane)).collect();
        let lanes = lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|_| panic!("a run failed, see above")));
        lanes.fold(Totals::default(), |mut totals, lane| {
            totals += lane;
            totals
        })
    });
    println!("{totals}");
}

/// A lane that panics leaves nothing for the others to begin.
struct StopAll<'a>(&'a AtomicUsize);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(0, Relaxed);
        }
    }
}

async fn one(servers: &Servers) -> Totals {
    let schedule = Schedule::new(harness::seed::rng("random").get_seed());
    println!("{schedule}");
    let report = servers.run(&schedule).await;
    println!("{report}");
    assert!(report.violations.is_empty(), "{} violations with SEED={}", report.violations.len(), schedule.seed);
    report.totals()
}

fn number(variable: &str, default: usize) -> usize {
    let text = std::env::var(variable).ok().filter(|text| !text.is_empty());
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a whole number")))
}
