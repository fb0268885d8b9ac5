//! `make bench`: how fast the outbox is and what it costs, beside what the two servers can do at all, on private servers with
//! everything real: fsync on, persistent messages, durable queues, mandatory, confirms, verdicts written back.
//!
//! Machines differ, so what counts are ratios within one run. Emitters, servers, relay and consumer share one machine, and a
//! figure is only as good as the machine is idle.
//!
//! Tables and targets go to standard output, every figure to `target/bench/latest.json`, with a plot (`.svg`) and the tables
//! as Markdown (`.md`) beside it. Some sections or cases alone, other settings or a quick look (`ONLY`, `CASE`, `RELAY`, `QUICK=1`) go to `partial.json` instead:
//! figures of different hours do not mix, and do not replace a complete run. `--from <file>` measures nothing, and makes
//! tables, plot and Markdown again from a JSON.

mod against;
mod baselines;
mod bench;
mod ceiling;
mod cost;
mod cpu;
mod emit;
mod emitted;
mod figure;
mod go_poller;
mod growth;
mod inbox;
mod latency;
mod load;
mod machine;
mod pages;
mod peer;
mod plot;
mod poller;
mod present;
mod publisher;
mod report;
mod retention;
mod socket;
mod table;
mod targets;
mod throughput;
mod watched;

use std::path::Path;

use crate::{bench::Bench, machine::Machine, report::Report};

/// What can be measured by itself, as in `make bench ONLY="latency emit"`.
const SECTIONS: [&str; 12] = [
    "ceiling",
    "publisher",
    "throughput",
    "watched",
    "idle",
    "latency",
    "emit",
    "baselines",
    "growth",
    "pages",
    "inbox",
    "retention",
];

#[tokio::main]
async fn main() {
    let only: Vec<String> = std::env::args().skip(1).collect();
    if let [from, file] = &*only
        && from == "--from"
    {
        return present::all(&Report::load(Path::new(file)), Path::new(file));
    }
    if let Some(unknown) = only.iter().find(|section| !SECTIONS.contains(&section.as_str())) {
        eprintln!("there is no section {unknown:?}; there are: {}", SECTIONS.join(", "));
        std::process::exit(2);
    }
    let load = machine::load();
    let bench = Bench::start().await;
    let machine = Machine::look(&bench, load).await;
    println!("{}", machine.table().text());
    if let Some(other) = std::env::var_os("AGAINST").filter(|other| !other.is_empty()) {
        return against::measure(&bench, Path::new(&other)).await;
    }
    let partial = report::folder().join("partial.json");
    let mut report = Report::new(machine, bench.runs, bench.is_quick());
    for section in SECTIONS {
        if only.is_empty() || only.iter().any(|wanted| wanted == section) {
            println!("\n{section}");
            match section {
                "emit" => emit::measure(&bench, &mut report).await,
                "ceiling" => ceiling::run(&bench, &mut report).await,
                "publisher" => publisher::measure(&bench, &mut report).await,
                "throughput" => throughput::run(&bench, &mut report).await,
                "watched" => watched::measure(&bench, &mut report).await,
                "idle" => throughput::idle(&bench, &mut report).await,
                "pages" => pages::measure(&bench, &mut report).await,
                "retention" => retention::measure(&bench, &mut report).await,
                "inbox" => inbox::measure(&bench, &mut report).await,
                "growth" => growth::run(&bench, &mut report).await,
                "latency" => latency::measure(&bench, &mut report).await,
                "baselines" => baselines::measure(&bench, &mut report).await,
                _ => unreachable!("{section}"),
            }
            present::section(&report, section);
            report.save(&partial); // what is measured is safe, whatever becomes of the next section
        }
    }
    let complete = only.is_empty() && bench.is_complete();
    let json = if complete { report::folder().join("latest.json") } else { partial };
    report.save(&json);
    present::all(&report, &json);
}
