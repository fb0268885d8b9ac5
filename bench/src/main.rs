//! `make bench`: how fast the outbox is and what it costs, beside what the two servers can do at all, on private
//! servers with everything real: fsync on, persistent messages, durable queues, mandatory, confirms, verdicts written
//! back.
//!
//! Machines differ, so what counts are ratios within one run. Emitters, servers, relay and consumer share one machine,
//! and a figure is only as good as the machine is idle.
//!
//! Tables and targets go to standard output, every figure to `target/bench/latest.json`, with a plot (`.svg`) and the
//! tables as Markdown (`.md`) beside it. Some sections or cases alone, other settings or a quick look (`ONLY`, `CASE`,
//! `RELAY`, `QUICK=1`) go to `partial.json` instead: figures of different hours do not mix, and do not replace a
//! complete run. `--from <file>` measures nothing, and makes tables, plot and Markdown again from a JSON.

mod against;
mod bench;
mod broker;
mod cost;
mod cpu;
mod emitted;
mod load;
mod report;
mod run;
mod sections;

use std::path::Path;

use crate::{
    bench::Bench,
    report::{Machine, Report, present},
    sections::{ceiling, emit, kafka, latency, publisher, retention, throughput},
};

/// What can be measured by itself, as in `make bench ONLY="latency emit"`.
const SECTIONS: [&str; 8] = ["ceiling", "publisher", "throughput", "idle", "latency", "emit", "kafka", "retention"];

#[tokio::main]
async fn main() {
    let only: Vec<String> = std::env::args().skip(1).collect();
    if let [from, file] = &*only
        && from == "--from"
    {
        return present::all(&Report::read(Path::new(file)), Path::new(file));
    }
    if let Some(unknown) = only.iter().find(|section| !SECTIONS.contains(&section.as_str())) {
        eprintln!("there is no section {unknown:?}; there are: {}", SECTIONS.join(", "));
        std::process::exit(2);
    }
    let load = report::load();
    let bench = Bench::start().await;
    let machine = Machine::look(&bench, load).await;
    println!("{}", machine.markdown());
    if let Some(other) = std::env::var_os("AGAINST").filter(|other| !other.is_empty()) {
        return against::measure(&bench, Path::new(&other)).await;
    }
    let partial = report::folder().join("partial.json");
    let mut report = Report::new(machine, bench.runs, bench.is_quick());
    for section in SECTIONS {
        if only.is_empty() || only.iter().any(|wanted| wanted == section) {
            println!("\n{section}");
            match section {
                "ceiling" => ceiling::measure(&bench, &mut report).await,
                "publisher" => publisher::measure(&bench, &mut report).await,
                "throughput" => throughput::measure(&bench, &mut report).await,
                "idle" => throughput::idle(&bench, &mut report).await,
                "latency" => latency::measure(&bench, &mut report).await,
                "emit" => emit::measure(&bench, &mut report).await,
                "kafka" => kafka::measure(&bench, &mut report).await,
                "retention" => retention::measure(&bench, &mut report).await,
                _ => unreachable!("{section}"),
            }
            present::section(&report, section);
            report.save(&partial); // what is measured is safe, even if the next section fails
        }
    }
    let complete = only.is_empty() && bench.is_complete();
    let json = if complete { report::folder().join("latest.json") } else { partial };
    report.save(&json);
    present::all(&report, &json);
}
