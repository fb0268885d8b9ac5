//! One key with a tenth of all events, one in flight at a time, beside others at full speed.
//!
//! In the queue of the others each of its messages waits behind all that are in flight there. A queue of its own lets
//! it go on as fast as the broker answers.

use std::time::Duration;

use super::trial::Trial;
use crate::{
    bench::Bench,
    broker::{Queue, QueueType},
    load::{Load, Payload, emitters},
    report::Report,
    run::EMITTERS,
};

const SHARED: &str = "strict, one hot key beside others";
const OWN: &str = "strict, one hot key with a queue of its own";
pub(super) const CASES: [&str; 2] = [SHARED, OWN];

/// Rates of the hot key and of the others, each from the first emit to its own last verdict, by the times in the table.
pub(super) async fn measure(bench: &Bench, report: &mut Report, case: &str) {
    let queue = |name, binding| Queue { name, binding, ..Queue::of_relay(QueueType::Classic) };
    let queues = match case {
        OWN => &[queue("bench", "order.#"), queue("hot", "hot")][..],
        _ => &[queue("bench", "#")],
    };
    let trial = Trial::with_queues(bench, QueueType::Classic, queues).await;
    let sessions = emitters(&trial.stack.db, EMITTERS).await;
    let relay = trial.bench.relay(&trial.stack).start().await;
    trial.run().begin(Some(&relay)).await;
    let load = Load { payload: Payload::B200, keys: 100_000 };
    load.emit_live_beside_hot_key(&sessions, Duration::from_millis(bench.amount(5000))).await;
    trial.run().all_settled(&relay).await;

    let rates = "SELECT aggregate_id = 'hot', (count(*) / extract(epoch FROM
                     max(processed_at) - (SELECT min(created_at) FROM outbox.events)))::float8
                 FROM outbox.events GROUP BY 1";
    for row in trial.stack.db.query(rates, &[]).await.expect("rates") {
        let (is_hot, rate): (bool, f64) = (row.get(0), row.get(1));
        let measure = if is_hot { "hot key rate" } else { "other keys rate" };
        println!("  {case}: {measure} {rate:.0}/s");
        report.add("throughput", case, measure, "/s", rate);
    }
}
