//! What the outbox is to reach on two cores, held against the medians.

use super::{
    Figure, Report, Table,
    figure::{number, thousands},
};
use Bound::{AtLeast, AtMost};

/// One promise: about figures of one section and measure, the worst of which counts.
struct Target {
    promise: &'static str,
    section: &'static str,
    /// How the names of its cases begin; a full name for one case.
    cases: &'static str,
    measure: &'static str,
    bound: Bound,
}

/// What is good enough.
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Of the broker alone, and of the broker that shares the machine with the same emitters.
const OF_CEILING: [&str; 2] = ["of ceiling", "of ceiling beside emitters"];
/// Under `ordering = strict` a single key has one event in flight: no share of the ceiling is promised for it.
const SINGLE_KEY: &str = ", 1 keys";

/// In the order in which they are shown: promise, section, cases, measure, bound.
const TARGETS: [Target; 28] = {
    const fn is(
        promise: &'static str,
        section: &'static str,
        cases: &'static str,
        measure: &'static str,
        bound: Bound,
    ) -> Target {
        Target { promise, section, cases, measure, bound }
    }
    const ALONE: &str = OF_CEILING[0];
    const BESIDE: &str = OF_CEILING[1];
    const RUN: &str = "throughput";
    [
        is("backlog, classic queue, of the broker alone", RUN, "backlog, classic", ALONE, AtLeast(0.80)),
        is("backlog, quorum queue, of the broker alone", RUN, "backlog, quorum", ALONE, AtLeast(0.70)),
        is("live, classic queue, of the broker alone", RUN, "live, classic", ALONE, AtLeast(0.80)),
        is("live, quorum queue, of the broker alone", RUN, "live, quorum", ALONE, AtLeast(0.70)),
        is("live, classic queue, of the broker beside the same emitters", RUN, "live, classic", BESIDE, AtLeast(0.80)),
        is("live, quorum queue, of the broker beside the same emitters", RUN, "live, quorum", BESIDE, AtLeast(0.70)),
        is("relay CPU, backlog", RUN, "backlog, classic, 200 B, 100000 keys", "relay CPU", AtMost(8.0)),
        is("relay CPU, live", RUN, "live, classic, 200 B, 100000 keys", "relay CPU", AtMost(8.0)),
        is("PostgreSQL CPU, backlog", RUN, "backlog, quorum, 200 B, 100000 keys", "PostgreSQL CPU", AtMost(12.0)),
        is("relay memory at its peak", RUN, "", "relay memory", AtMost(64.0)),
        is("relay memory, one transaction of 1,000,000", RUN, "one transaction", "relay memory", AtMost(64.0)),
        is("one strict key, others beside it", RUN, "strict, one hot key beside", "hot key rate", AtLeast(1000.0)),
        is("one strict key, a queue of its own", RUN, "strict, one hot key with", "hot key rate", AtLeast(1000.0)),
        is("one key, pipelined, of many keys", RUN, "pipelined", "of many keys", AtLeast(0.9)),
        is("relay CPU a second when idle", "idle", "", "relay CPU", AtMost(1000.0)), // 0.1 % of a core
        is("latency p50 at 1,000/s", "latency", "outbox, 1000/s", "p50", AtMost(2.0)),
        is("latency p99 at 1,000/s", "latency", "outbox, 1000/s", "p99", AtMost(10.0)),
        is("Kafka: a backlog of 200 B", "kafka", "backlog, 200 B, 100000 keys", "rate", AtLeast(60_000.0)),
        is("Kafka: a backlog, of Debezium Server", "kafka", "backlog, 200 B", "of Debezium Server", AtLeast(5.0)),
        is("Kafka: one strict key", "kafka", "backlog, 200 B, 1 keys", "rate", AtLeast(20_000.0)),
        is("Kafka: relay CPU, backlog", "kafka", "backlog, 200 B, 100000 keys", "relay CPU", AtMost(4.0)),
        is("Kafka: latency p99 at 1,000/s", "kafka", "outbox, 1000/s", "p99", AtMost(5.0)),
        is("Kafka: that, of Debezium Server's", "kafka", "outbox, 1000/s", "p99 of Debezium Server's", AtMost(0.1)),
        is(
            "Kafka: client CPU of other producers, of the relay's",
            "publisher",
            "kafka",
            "CPU of outbox's",
            AtLeast(2.0),
        ),
        is("emit() beside INSERT, one row a call", "emit", "emit(), single", "of INSERT", AtMost(1.10)),
        is("emit() beside INSERT … SELECT, set-based", "emit", "emit(), set-based", "of INSERT", AtMost(1.2)),
        is("PostgreSQL CPU to settle a row", "ceiling", "settle", "PostgreSQL CPU", AtMost(8.0)),
        is(
            "size of a table under retention, of what its rows need",
            "retention",
            "outbox, old events deleted",
            "size at the end, of what its rows need",
            AtMost(1.2),
        ),
    ]
};

impl Target {
    fn counts(&self, figure: &Figure) -> bool {
        let is_excepted = OF_CEILING.contains(&self.measure) && figure.case.contains(SINGLE_KEY);
        figure.measure == self.measure && figure.case.starts_with(self.cases) && !is_excepted
    }

    /// The worst figure, and whether there were others; `None` if nothing of it was measured.
    fn worst<'a>(&self, report: &'a Report) -> Option<(&'a Figure, bool)> {
        let mut figures: Vec<_> = report.section(self.section).filter(|figure| self.counts(figure)).collect();
        figures.sort_by(|one, other| one.median().total_cmp(&other.median()));
        if let AtMost(_) = self.bound {
            figures.reverse();
        }
        Some((*figures.first()?, figures.len() > 1))
    }

    fn outcome(&self, value: f64) -> String {
        let (missed, bound) = match self.bound {
            AtLeast(bound) => (bound - value, bound),
            AtMost(bound) => (value - bound, bound),
        };
        let is_missed = missed > 0.0 || missed.is_nan();
        if is_missed { format!("MISSED by {:.0} %", (missed / bound * 100.0).max(1.0)) } else { "pass".to_owned() }
    }

    fn row(&self, report: &Report) -> Vec<String> {
        let bound = match self.bound {
            AtLeast(bound) => format!("≥ {}", thousands(&bound.to_string())),
            AtMost(bound) => format!("≤ {}", thousands(&bound.to_string())),
        };
        let promise = self.promise.to_owned();
        let Some((worst, is_one_of_many)) = self.worst(report) else {
            return vec![promise, bound, "–".to_owned(), "not measured".to_owned()];
        };
        let rest = worst.case.strip_prefix(self.cases).unwrap_or_default().trim_start_matches(", ");
        let case = if is_one_of_many { format!(" ({rest})") } else { String::new() };
        let measured = format!("{} {}{case}", number(worst.median()), worst.unit);
        vec![promise, format!("{bound} {}", worst.unit), measured, self.outcome(worst.median())]
    }
}

/// `target | bound | measured | pass or MISSED`.
pub(crate) fn table(report: &Report) -> Table {
    let rows = TARGETS.iter().map(|target| target.row(report));
    Table::new(&["target", "bound", "measured, worst", "outcome"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(report: &Report, promise: &str) -> Vec<String> {
        TARGETS.iter().find(|target| target.promise == promise).unwrap().row(report)
    }

    #[test]
    fn the_worst_case_counts_and_a_single_strict_key_does_not() {
        let mut report = Report::default();
        for (case, part) in [("200 B, 1 keys", 0.02), ("200 B, 100 keys", 0.9), ("10 kB, 100 keys", 0.6)] {
            report.add("throughput", &format!("backlog, classic, {case}"), "of ceiling", "×", part);
        }
        let row = row(&report, "backlog, classic queue, of the broker alone");
        assert_eq!(row[1..], ["≥ 0.8 ×", "0.60 × (10 kB, 100 keys)", "MISSED by 25 %"]);
    }

    #[test]
    fn a_bound_from_above_is_held_against_the_largest() {
        let mut report = Report::default();
        report.add("throughput", "backlog, quorum", "relay memory", "MB", 31.0);
        report.add("throughput", "one transaction of 1000000", "relay memory", "MB", 64.0);
        assert_eq!(row(&report, "relay memory at its peak")[3], "pass");
    }

    #[test]
    fn what_was_not_measured_is_neither_passed_nor_missed() {
        let text = table(&Report::default()).markdown();
        assert_eq!(text.matches("not measured").count(), TARGETS.len());
    }
}
