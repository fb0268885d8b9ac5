//! The plot: throughput beside the baselines, latency, and where the CPU time goes, as an SVG of its own white ground.

mod cost;
mod latency;
mod retention;
mod svg;
mod throughput;

use svg::{MUTED, Svg, TEXT, WIDTH};

use crate::report::Report;

/// What belongs to the outbox in every panel.
const OUTBOX: &str = "#0969da";

/// What the outbox is held against.
const OTHERS: &str = "#afb8c1";

/// The load that panels show when they show one: small messages are the hardest, for everything is paid an event.
const LIVE: &str = "live, quorum, 200 B, 100000 keys";
const BACKLOG: &str = "backlog, quorum, 200 B, 100000 keys";

/// Whose figure it is, for its colour.
#[derive(Clone, Copy)]
enum Of {
    Outbox,
    Others,
}

impl Of {
    fn colour(self) -> &'static str {
        match self {
            Self::Outbox => OUTBOX,
            Self::Others => OTHERS,
        }
    }
}

/// Draws what there are figures for.
pub(crate) fn svg(report: &Report) -> String {
    let mut svg = Svg::new();
    let cores = report.machine.fact("cores");
    let on = if cores.is_empty() { String::new() } else { format!(" on {cores} cores") };
    svg.heading(34.0, &format!("Transactional outbox, from PostgreSQL to RabbitMQ{on}"));
    let what = "200 B events, durable quorum queue, persistent, confirmed, verdicts written back; fsync on";
    svg.text((svg::MARGIN, 54.0), TEXT, MUTED, what);
    let mut top = 76.0;
    for panel in [throughput::draw, latency::draw, cost::draw, retention::draw] {
        top = panel(&mut svg, report, top);
    }
    let fact = |name| report.machine.fact(name);
    let runs = match (report.quick, report.runs) {
        (true, _) => "A quick look whether the benchmark works: the figures mean nothing. ".to_owned(),
        (_, 1) => "One run. ".to_owned(),
        (_, runs) => format!("Medians of {runs} runs; thin lines reach from the least to the most. "),
    };
    let servers = format!("PostgreSQL {}, RabbitMQ {}, ", fact("PostgreSQL"), fact("RabbitMQ"));
    svg.note(top + 10.0, &format!("{runs}{}.", fact("date")));
    svg.note(top + 26.0, &format!("{servers}{}.", fact("CPU")));
    svg.end(WIDTH, top + 44.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_left_out() {
        let mut report = Report::default();
        assert!(!svg(&report).contains("Throughput"));
        report.add("baselines", "quorum, outbox", "rate", "/s", 38_500.0);
        let svg = svg(&report);
        assert!(svg.contains("outbox, backlog") && svg.contains("38,500"), "{svg}");
        assert!(!svg.contains("live load") && !svg.contains("Latency"), "{svg}");
    }

    #[test]
    fn a_latency_of_nothing_does_not_break_the_logarithm() {
        let mut report = Report::default();
        for (measure, ms) in [("p50", 0.0), ("p99", 3.0)] {
            report.add("latency", "outbox, 100/s", measure, "ms", ms);
        }
        assert!(!svg(&report).contains("NaN"));
    }
}
