//! Whether an event costs more when there is more: of history in the table, or of backlog. How a long queue weighs on the
//! broker is not the question, so a consumer keeps it short.

use harness::{Database, Relay};

use crate::{
    bench::Bench,
    ceiling::{quiet, rate},
    cost::Cost,
    cpu,
    load::{Load, Payload},
    report::Report,
    socket::QueueType,
    throughput::trial::Trial,
};

const LOAD: Load = Load { payload: Payload::B200, keys: 100_000 };
/// Finished events in the table.
const HISTORIES: [u64; 3] = [0, 1_000_000, 10_000_000];
/// What is drained beside each of them.
const BACKLOG_BESIDE_HISTORY: u64 = 100_000;
const BACKLOGS: [u64; 4] = [10_000, 100_000, 1_000_000, 3_000_000];
/// Larger ones are drained once, however many runs are wanted: they take long and average over more.
const ONCE_FROM: u64 = 1_000_000;

/// Everything of this section.
pub(crate) async fn run(bench: &Bench, report: &mut Report) {
    let mut smallest = f64::NAN;
    for backlog in BACKLOGS {
        let events = bench.amount(backlog);
        for _ in 0..if backlog < ONCE_FROM { bench.runs } else { 1 } {
            let trial = Trial::prepare(bench, QueueType::Classic).await;
            let _consumer = trial.consumer();
            drain(&trial, report, &format!("backlog of {backlog}"), events, &mut smallest).await;
        }
    }
    let trial = Trial::prepare(bench, QueueType::Classic).await;
    let _consumer = trial.consumer();
    let mut smallest = f64::NAN;
    for history in HISTORIES {
        add_history(&trial, bench.amount(history)).await;
        let events = bench.amount(BACKLOG_BESIDE_HISTORY);
        drain(&trial, report, &format!("history of {history}"), events, &mut smallest).await;
    }
}

/// Fills the table up to so many finished events, the way they would be there after a long time: vacuumed and analysed.
async fn add_history(trial: &Trial<'_>, history: u64) {
    let db = &trial.stack.db;
    // Nothing looks at a row that comes finished: only the owner may do that, as when a dump is restored.
    let fill = format!(
        "INSERT INTO outbox.events (status, attempts, topic, event_type, aggregate_type, aggregate_id, payload, content_type,
                                    last_attempted_at, processed_at)
         SELECT 'SENT', 1, 'order.moved', 'OrderMoved', 'order', (i % 100000)::text,
                jsonb_build_object('n', i, 'text', repeat(md5(i::text), 6)), 'application/json', now(), now()
         FROM generate_series((SELECT count(*) FROM outbox.events) + 1, {history}) AS i"
    );
    println!("  filling up to {history} finished events");
    db.batch_execute("ALTER TABLE outbox.events DISABLE TRIGGER USER").await.expect("triggers off");
    db.batch_execute(&fill).await.expect("history");
    db.batch_execute("ALTER TABLE outbox.events ENABLE TRIGGER USER").await.expect("triggers on");
    db.batch_execute("VACUUM ANALYZE outbox.events").await.expect("VACUUM");
}

/// Millions take long, and there are two cores.
async fn emit_in_two_sessions(db: &Database, events: u64) {
    let (one, other) = tokio::join!(db.connect(), db.connect());
    tokio::join!(LOAD.emit(&one, events / 2), LOAD.emit(&other, events - events / 2));
}

/// Drains a backlog and reports rate and costs, also beside the cost of the first that was drained.
async fn drain(trial: &Trial<'_>, report: &mut Report, case: &str, events: u64, smallest: &mut f64) {
    let db = &trial.stack.db;
    emit_in_two_sessions(db, events).await;
    let start = trial.begin(None).await;
    let relay: Relay = trial.bench.relay(&trial.stack).spawn();
    trial.all_settled(&relay).await;
    let rate = rate(events, start.elapsed());
    let cost = Cost::since(&start.used, trial.bench, db, relay.pid()).await;
    let us = |used| cpu::us_per_event(used, events);
    let total = us(cost.total());
    if smallest.is_nan() {
        *smallest = total;
    }
    println!(
        "  {case}: {events} events at {rate:.0}/s; µs an event: relay {:.1}, PostgreSQL {:.1}, broker {:.1}",
        us(cost.relay),
        us(cost.postgres()),
        us(cost.broker)
    );
    report.add("growth", case, "rate", "/s", rate);
    report.add("growth", case, "relay CPU", "µs", us(cost.relay));
    report.add("growth", case, "PostgreSQL CPU", "µs", us(cost.postgres()));
    report.add("growth", case, "broker CPU", "µs", us(cost.broker));
    report.add("growth", case, "of the smallest", "×", total / *smallest);

    relay.stop().await;
    // Else the slot would keep the WAL of what comes next, and the next relay would read it.
    db.batch_execute(&format!("SELECT pg_drop_replication_slot('{}')", db.name())).await.expect("the slot");
    quiet(db).await;
}
