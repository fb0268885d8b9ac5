//! Two builds of the relay, in turns: `make bench AGAINST=<another outbox-relay>`.
//!
//! They take turns in the order A B B A, so that a machine that becomes slower in the course of it slows both alike.
//! The other build must fit the extension of this one.

use std::path::Path;

use crate::{
    bench::Bench,
    report::{Report, Table, number},
    sections::{latency, throughput},
};

/// Throughput and latency of both, and a table of their medians.
pub(crate) async fn measure(bench: &Bench, other: &Path) {
    throughput::warm_up(bench).await;
    let (mut ours, mut theirs) = (Report::default(), Report::default());
    for round in 0..bench.runs {
        for turn in 0..2 {
            let is_ours = (round + turn) % 2 == 0;
            println!("{}", if is_ours { "this build" } else { "the other build" });
            bench.measure_program((!is_ours).then_some(other));
            let report = if is_ours { &mut ours } else { &mut theirs };
            throughput::once(bench, report).await;
            latency::once(bench, report, latency::HALF_OF_MAXIMUM).await;
        }
    }
    println!("\nmedians of {} runs each; {} is the other build\n", bench.runs, other.display());
    println!("{}", compared(&ours, &theirs).markdown());
}

/// `case, measure | other | this | this of other`.
fn compared(ours: &Report, theirs: &Report) -> Table {
    let sections = ours.sections();
    let figures = sections.iter().flat_map(|section| ours.section(section));
    let rows = figures.filter_map(|figure| {
        let other = theirs.figure(&figure.section, &figure.case, &figure.measure)?;
        let name = format!("{}, {}", figure.case, figure.measure);
        let ratio = figure.median() / other.median();
        Some(vec![name, other.with_spread(), figure.with_spread(), figure.unit.clone(), number(ratio)])
    });
    Table::new(&["", "other", "this", "", "of other"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_of_the_medians() {
        let (mut ours, mut theirs) = (Report::default(), Report::default());
        for (this, other) in [(98.0, 100.0), (103.0, 50.0), (101.0, 200.0)] {
            ours.add("throughput", "live", "rate", "/s", this);
            theirs.add("throughput", "live", "rate", "/s", other);
        }
        ours.add("throughput", "only here", "rate", "/s", 1.0);
        let text = compared(&ours, &theirs).markdown();
        assert!(text.contains("1.01") && !text.contains("only here"), "{text}");
    }
}
