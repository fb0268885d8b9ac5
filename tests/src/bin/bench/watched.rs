//! What it costs delivery to be watched: a relay whose metrics are scraped and whose dashboard is open, beside one without either.
//!
//! The two take turns in the order A B B A, so that a machine that becomes slower in the course of it slows both alike.

use std::{net::Ipv4Addr, time::Duration};

use harness::{RelayBuilder, Stack, free_port, get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

use crate::{
    bench::Bench,
    latency::through,
    load::{Load, Payload},
    report::Report,
    socket::QueueType,
    throughput::{MANY_KEYS, live, trial::Trial},
};

const SECTION: &str = "watched";
/// Events of the backlog: some seconds' worth.
const BACKLOG: u64 = 100_000;
/// Events a second of the latency.
const RATE: u64 = 1000;
/// Prometheus scrapes every 15 to 60 s; this is far more often.
const SCRAPED_EVERY: Duration = Duration::from_secs(1);

const LOAD: Load = Load { payload: Payload::B200, keys: MANY_KEYS };

/// What is measured of both.
#[derive(Clone, Copy)]
enum What {
    Backlog,
    Live,
    Latency,
}

impl What {
    /// With its name, what the two are compared by, and how many turns each has for every run of other figures: small differences
    /// need many.
    const ALL: [(Self, &'static str, &'static str, usize); 3] = [
        (Self::Backlog, "backlog, quorum, 200 B", "rate", 4),
        (Self::Live, "live, quorum, 200 B", "rate", 4),
        (Self::Latency, "latency, classic, 200 B, 1000/s", "p50", 1),
    ];
}

/// All of it, in turns.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    for (what, case, measure, turns) in What::ALL {
        if !bench.wants(case) {
            continue;
        }
        for pair in 0..bench.runs * turns {
            let watched_first = pair % 2 == 0;
            one(bench, report, what, case, watched_first).await;
            one(bench, report, what, case, !watched_first).await;
        }
        let median = |watched| report.figure(SECTION, &name(case, watched), measure).expect("was measured").median();
        let of_unwatched = median(true) / median(false);
        report.add(SECTION, &name(case, true), "of unwatched", "×", of_unwatched);
    }
}

fn name(case: &str, watched: bool) -> String {
    format!("{case}, {}", if watched { "watched" } else { "unwatched" })
}

async fn one(bench: &Bench, report: &mut Report, what: What, case: &str, watched: bool) {
    let case = name(case, watched);
    match what {
        What::Backlog | What::Live => {
            let trial = Trial::prepare(bench, QueueType::Quorum).await;
            let (relay, _watchers) = relay(bench, &trial.stack, watched).await;
            let told = &mut Report::default();
            let rate = match what {
                What::Backlog => trial.drain_backlog(told, &case, &LOAD, bench.amount(BACKLOG), &relay).await,
                _ => live(&trial, told, &case, &LOAD, &relay).await,
            };
            report.add(SECTION, &case, "rate", "/s", rate);
            for measure in ["relay CPU", "other PostgreSQL CPU"] {
                if let Some(cpu) = told.figure("throughput", &case, measure) {
                    report.add(SECTION, &case, measure, "µs", cpu.median());
                }
            }
        }
        What::Latency => {
            let stack = bench.stack().await;
            let (relay, _watchers) = relay(bench, &stack, watched).await;
            let percentiles = through(bench, &stack, &relay, RATE).await;
            println!("  {case}: p50 {:.2} ms, p99 {:.2} ms", percentiles.p50, percentiles.p99);
            report.add(SECTION, &case, "p50", "ms", percentiles.p50);
            report.add(SECTION, &case, "p99", "ms", percentiles.p99);
        }
    }
}

/// A relay, and those who watch it if anybody does.
async fn relay(bench: &Bench, stack: &Stack, watched: bool) -> (RelayBuilder, Option<Watchers>) {
    let relay = bench.relay(stack);
    if !watched {
        return (relay, None);
    }
    let port = free_port();
    let relay = relay
        .set("http-listen", &format!("127.0.0.1:{port}"))
        .set("dashboard-database-url", &stack.monitor_url().await);
    (relay, Some(Watchers::of(port)))
}

/// One that scrapes, and one that looks at the dashboard. Dropping it ends both.
struct Watchers([JoinHandle<()>; 2]);

impl Watchers {
    /// Of the relay that will listen there.
    fn of(port: u16) -> Self {
        let scraping = tokio::spawn(async move {
            loop {
                let _ = get(port, "/metrics").await;
                tokio::time::sleep(SCRAPED_EVERY).await; // the pace of what is measured, not a wait for something
            }
        });
        let looking = tokio::spawn(async move {
            while look(port).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await; // it does not listen yet
            }
        });
        Self([scraping, looking])
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Reads what a page that is open is told, until the relay ends.
async fn look(port: u16) -> std::io::Result<()> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let request = format!("GET /api/live HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut told = [0; 16 * 1024];
    while socket.read(&mut told).await? > 0 {}
    Ok(())
}
