//! What the outbox is to reach on two cores, held against the medians.

use serde_json::{Value, json};

use super::{
    Report, Table,
    figure::{number, thousands},
};
use Bound::{AtLeast, AtMost};

/// One promise.
struct Target {
    promise: &'static str,
    /// The worst of these counts.
    of: Cases,
    bound: Bound,
}

/// Figures of one section and measure.
struct Cases {
    section: &'static str,
    /// How their names begin; a full name for one case.
    begin: &'static str,
    /// Names with this in them do not count (nothing: all count).
    without: &'static str,
    measure: &'static str,
}

/// What is good enough.
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

const fn all(section: &'static str, begin: &'static str, measure: &'static str) -> Cases {
    Cases { section, begin, without: "", measure }
}

/// A single key under `ordering = strict` has one event in flight: no share of the ceiling is promised for it, but a rate
/// of its own.
const fn of_ceiling(begin: &'static str) -> Cases {
    Cases { section: "throughput", begin, without: ", 1 key", measure: "of ceiling" }
}

const fn throughput(begin: &'static str, measure: &'static str) -> Cases {
    all("throughput", begin, measure)
}

/// The same, where the emitters share the broker's cores.
const fn beside(begin: &'static str) -> Cases {
    Cases { section: "throughput", begin, without: ", 1 key", measure: "of ceiling beside emitters" }
}

const fn target(promise: &'static str, of: Cases, bound: Bound) -> Target {
    Target { promise, of, bound }
}

/// In the order in which they are shown.
const TARGETS: [Target; 21] = [
    target("backlog, classic queue, of the broker alone", of_ceiling("backlog, classic"), AtLeast(0.80)),
    target("backlog, quorum queue, of the broker alone", of_ceiling("backlog, quorum"), AtLeast(0.70)),
    target("live load, classic queue, of the broker alone", of_ceiling("live, classic"), AtLeast(0.80)),
    target("live load, quorum queue, of the broker alone", of_ceiling("live, quorum"), AtLeast(0.70)),
    target("live load, classic queue, of the broker beside the same emitters", beside("live, classic"), AtLeast(0.80)),
    target("live load, quorum queue, of the broker beside the same emitters", beside("live, quorum"), AtLeast(0.70)),
    target("relay CPU an event, backlog", throughput("backlog, classic, 200 B, 100000 keys", "relay CPU"), AtMost(8.0)),
    target("relay CPU an event, live load", throughput("live, classic, 200 B, 100000 keys", "relay CPU"), AtMost(8.0)),
    target(
        "PostgreSQL CPU an event, backlog, quorum queue",
        throughput("backlog, quorum, 200 B, 100000 keys", "PostgreSQL CPU"),
        AtMost(12.0),
    ),
    target("relay memory at its peak, full load", throughput("", "relay memory"), AtMost(64.0)),
    target("relay memory, one transaction of 1,000,000", throughput("one transaction", "relay memory"), AtMost(64.0)),
    target(
        "one hot key, strict, in the queue of the others",
        throughput("strict, one hot key beside others", "hot key rate"),
        AtLeast(1000.0),
    ),
    target(
        "one hot key, strict, with a queue of its own",
        throughput("strict, one hot key with", "hot key rate"),
        AtLeast(1000.0),
    ),
    target("one key, pipelined, of many keys", throughput("pipelined", "of many keys"), AtLeast(0.9)),
    target("relay CPU a second when idle", all("idle", "", "relay CPU"), AtMost(1000.0)), // 0.1 % of a core
    target("latency p50 at 1,000/s", all("latency", "outbox, 1000/s", "p50"), AtMost(2.0)),
    target("latency p99 at 1,000/s", all("latency", "outbox, 1000/s", "p99"), AtMost(10.0)),
    target("emit() beside INSERT, one row a call", all("emit", "emit(), single", "of INSERT"), AtMost(1.10)),
    target("emit() beside INSERT … SELECT, set-based", all("emit", "emit(), set-based", "of INSERT"), AtMost(1.2)),
    target("PostgreSQL CPU to settle a row", all("ceiling", "settle", "PostgreSQL CPU"), AtMost(8.0)),
    target(
        "size of a table under retention, of what its rows need",
        all("retention", "outbox, old events deleted", "size at the end, of what its rows need"),
        AtMost(1.2),
    ),
];

/// The worst figure of a target.
struct Worst<'a> {
    value: f64,
    unit: &'a str,
    /// Which it was, if there were several.
    case: Option<&'a str>,
}

impl Target {
    /// By how much of the bound it is missed; `None` if it is not.
    fn missed_by(&self, value: f64) -> Option<f64> {
        let (missed, bound) = match self.bound {
            AtLeast(bound) => (bound - value, bound),
            AtMost(bound) => (value - bound, bound),
        };
        (missed > 0.0 || missed.is_nan()).then_some(missed / bound)
    }
}

impl Cases {
    /// `None` if nothing of it was measured.
    fn worst<'a>(&self, report: &'a Report, bound: &Bound) -> Option<Worst<'a>> {
        let counts =
            |case: &str| case.starts_with(self.begin) && (self.without.is_empty() || !case.contains(self.without));
        let figures =
            report.section(self.section).filter(|figure| figure.measure == self.measure && counts(&figure.case));
        let mut candidates: Vec<_> = figures.map(|figure| (figure.median(), figure)).collect();
        candidates.sort_by(|one, other| match bound {
            AtLeast(_) => one.0.total_cmp(&other.0),
            AtMost(_) => other.0.total_cmp(&one.0),
        });
        let &(value, figure) = candidates.first()?;
        let case = (candidates.len() > 1).then(|| self.short(&figure.case));
        Some(Worst { value, unit: &figure.unit, case })
    }

    /// The case without the words that all of these begin with.
    fn short<'a>(&self, case: &'a str) -> &'a str {
        case.strip_prefix(self.begin).and_then(|rest| rest.strip_prefix(", ")).unwrap_or(case)
    }
}

/// `target | bound | measured | pass or MISSED`.
pub(crate) fn table(report: &Report) -> Table {
    let row = |target: &Target| {
        let bound = match target.bound {
            AtLeast(bound) => format!("≥ {}", thousands(&bound.to_string())),
            AtMost(bound) => format!("≤ {}", thousands(&bound.to_string())),
        };
        let Some(worst) = target.of.worst(report, &target.bound) else {
            return vec![target.promise.to_owned(), bound, "–".to_owned(), "not measured".to_owned()];
        };
        let case = worst.case.map_or_else(String::new, |case| format!(" ({case})"));
        let outcome = (target.missed_by(worst.value))
            .map_or_else(|| "pass".to_owned(), |part| format!("MISSED by {:.0} %", (part * 100.0).max(1.0)));
        let promise = target.promise.to_owned();
        vec![
            promise,
            format!("{bound} {}", worst.unit),
            format!("{} {}{case}", number(worst.value), worst.unit),
            outcome,
        ]
    };
    Table::new(&["target", "bound", "measured, worst", "outcome"], TARGETS.iter().map(row))
}

/// For programs.
pub(crate) fn to_json(report: &Report) -> Value {
    let outcome = |target: &Target| {
        let worst = target.of.worst(report, &target.bound);
        let missed_by = worst.as_ref().and_then(|worst| target.missed_by(worst.value));
        let (direction, bound) = match target.bound {
            AtLeast(bound) => ("at least", bound),
            AtMost(bound) => ("at most", bound),
        };
        json!({
            "target": target.promise, "direction": direction, "bound": bound,
            "measured": worst.as_ref().map(|worst| worst.value),
            "unit": worst.as_ref().map(|worst| worst.unit),
            "case": worst.as_ref().and_then(|worst| worst.case),
            "passed": worst.as_ref().map(|_| missed_by.is_none()),
            "missed by": missed_by,
        })
    };
    TARGETS.iter().map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(report: &Report, promise: &str) -> Value {
        let all = to_json(report);
        all.as_array().unwrap().iter().find(|target| target["target"] == promise).unwrap().clone()
    }

    #[test]
    fn the_worst_case_counts_and_a_single_strict_key_does_not() {
        let mut report = Report::default();
        for (case, part) in [("200 B, 1 keys", 0.02), ("200 B, 100 keys", 0.9), ("10 kB, 100 keys", 0.6)] {
            report.add("throughput", &format!("backlog, classic, {case}"), "of ceiling", "×", part);
        }
        let outcome = outcome(&report, "backlog, classic queue, of the broker alone");
        assert_eq!((&outcome["case"], &outcome["passed"]), (&json!("10 kB, 100 keys"), &json!(false)));
        assert!((outcome["missed by"].as_f64().unwrap() - 0.25).abs() < 1e-9);
        assert!(table(&report).markdown().contains("MISSED by 25 %"));
    }

    #[test]
    fn a_bound_from_above_is_held_against_the_largest() {
        let mut report = Report::default();
        report.add("throughput", "backlog, quorum", "relay memory", "MB", 31.0);
        report.add("throughput", "one transaction of 1000000", "relay memory", "MB", 64.0);
        let outcome = outcome(&report, "relay memory at its peak, full load");
        assert_eq!((&outcome["measured"], &outcome["passed"]), (&json!(64.0), &json!(true)));
    }

    #[test]
    fn what_was_not_measured_is_neither_passed_nor_missed() {
        let text = table(&Report::default()).markdown();
        assert_eq!(text.matches("not measured").count(), TARGETS.len());
    }
}
