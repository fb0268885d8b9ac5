//! What everything costs while nothing is emitted.

use std::time::Duration;

use super::trial::Trial;
use crate::{bench::Bench, broker::QueueType, report::Report};

/// CPU time per second over ten seconds, with the relay streaming.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    for _ in 0..bench.runs {
        let trial = Trial::prepare(bench, QueueType::Classic).await;
        let relay = trial.bench.relay(&trial.stack).start().await;
        let start = trial.run().begin(Some(&relay)).await;
        tokio::time::sleep(Duration::from_secs(10)).await; // what is measured, not a wait for something
        let took = start.elapsed();
        let cost = trial.run().cost_since(&start, &relay).await;
        for (measure, used) in
            [("relay CPU", cost.relay), ("PostgreSQL CPU", cost.postgres()), ("broker CPU", cost.broker)]
        {
            let us_per_second = used.as_secs_f64() * 1e6 / took.as_secs_f64();
            println!("  {measure}: {us_per_second:.0} µs a second");
            report.add("idle", "10 s", measure, "µs", us_per_second);
        }
    }
}
