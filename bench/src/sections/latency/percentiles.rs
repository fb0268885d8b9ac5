//! What the samples of a run say.

use std::time::{Duration, Instant};

use super::emitter::Emitted;
use crate::report::Report;

/// From the return of the commit to the arrival, in milliseconds; never below 0.
pub(crate) struct Percentiles {
    p50: f64,
    pub(crate) p99: f64,
    p99_9: f64,
    /// From the moment the statement was sent.
    p50_from_call: f64,
    /// Events a second that were committed, which is less than what was wanted when the machine has not kept up.
    rate: f64,
    /// Events that were committed and had not arrived long after all others had.
    pub(crate) never_arrived: usize,
}

impl Percentiles {
    /// Of events and their arrivals.
    pub(crate) fn of<'a>(events: impl Iterator<Item = (&'a Emitted, Option<Instant>)>) -> Self {
        let mut never_arrived = 0;
        let mut samples = Vec::new();
        for (event, arrived) in events {
            match arrived {
                Some(arrived) => samples.push((event, arrived)),
                None => never_arrived += 1,
            }
        }
        let since = |start: fn(&Emitted) -> Instant| -> Vec<Duration> {
            let mut sorted: Vec<_> =
                samples.iter().map(|(event, arrived)| arrived.saturating_duration_since(start(event))).collect();
            sorted.sort_unstable();
            sorted
        };
        let from_commit = since(|event| event.committed);
        let first = samples.iter().map(|(event, _)| event.called).min().expect("some events were measured");
        let last = samples.iter().map(|(event, _)| event.committed).max().expect("some events were measured");
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = samples.len() as f64 / (last - first).as_secs_f64();
        Self {
            p50: nearest_rank(&from_commit, 500),
            p99: nearest_rank(&from_commit, 990),
            p99_9: nearest_rank(&from_commit, 999),
            p50_from_call: nearest_rank(&since(|event| event.called), 500),
            rate,
            never_arrived,
        }
    }

    /// Adds a run to a section of the report, and prints it.
    pub(crate) fn add(&self, report: &mut Report, section: &str, case: &str) {
        let Self { p50, p99, p99_9, p50_from_call, rate, never_arrived } = self;
        for (measure, value) in [("p50", p50), ("p99", p99), ("p99.9", p99_9), ("p50 from the call", p50_from_call)] {
            report.add(section, case, measure, "ms", *value);
        }
        report.add(section, case, "rate", "/s", *rate);
        println!("{case:<32} p50 {p50:>8.2} ms  p99 {p99:>8.2} ms  p99.9 {p99_9:>8.2} ms  at {rate:>6.0}/s");
        if *never_arrived > 0 {
            println!("{case:<32} never arrived: {never_arrived}");
        }
    }
}

/// The smallest sample that at least `thousandths` of all samples do not exceed, in milliseconds.
fn nearest_rank(sorted: &[Duration], thousandths: usize) -> f64 {
    let rank = (sorted.len() * thousandths).div_ceil(1000).max(1);
    sorted.get(rank - 1).expect("some events were measured").as_secs_f64() * 1e3
}
