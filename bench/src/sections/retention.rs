//! How large the table becomes while old events are deleted as retention does it, and what that costs; beside the same
//! with everything kept.

mod delete;

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant, SystemTime},
};

use harness::{Connection, Database};
use uuid::Uuid;

use self::delete::Deleter;
use crate::{bench::Bench, cpu, report::Report};

const SECTION: &str = "retention";
/// In all.
const EVENTS: u64 = 10_000_000;
/// In one transaction.
const BATCH: u64 = 1000;
/// The youngest tenth of all events is kept.
const KEPT: u64 = 10;
/// How often the size is looked at.
const LOOKS: u64 = 100;

/// How far the load has come.
struct Progress {
    /// Events that have their verdict.
    settled: Cell<u64>,
    /// When each batch was settled.
    batches: RefCell<Vec<SystemTime>>,
    is_over: Cell<bool>,
}

/// Everything of this section. Once, however many runs are wanted: each case takes minutes and averages over more.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    let db = bench.stack().await.db;
    let configure = async |setting: &str| {
        db.batch_execute(&format!("ALTER SYSTEM {setting}")).await.expect("a setting");
        db.batch_execute("SELECT pg_reload_conf()").await.expect("a new configuration");
    };
    // VACUUM must come as often in these few minutes as it does in the days that they stand for.
    configure("SET autovacuum_naptime = '1s'").await;
    for (case, deletes) in [("outbox, all kept", false), ("outbox, old events deleted", true)] {
        if bench.wants(case) {
            run(bench, report, case, deletes).await;
        }
    }
    configure("RESET autovacuum_naptime").await;
}

/// Emits, settles and deletes, each in a session of its own.
async fn run(bench: &Bench, report: &mut Report, case: &str, deletes: bool) {
    let db = &bench.stack().await.db;
    let events = bench.amount(EVENTS).next_multiple_of(BATCH);
    let [emitter, settler, retention] = [db.connect().await, db.connect().await, db.connect().await];
    let pids = [pid(&emitter).await, pid(&settler).await, pid(&retention).await];
    let before = (pids.map(cpu::used_by), all_of_postgres(bench));
    let progress = Progress { settled: Cell::new(0), batches: RefCell::default(), is_over: Cell::new(false) };
    let started = Instant::now();
    let deleting = async { if deletes { delete_old(&retention, events / KEPT, &progress).await } else { 0 } };
    let ((mut took, sizes), deleted) = tokio::join!(load(db, [&emitter, &settler], events, &progress), deleting);
    let lasted = started.elapsed();
    let used: Vec<Duration> =
        pids.iter().zip(before.0).map(|(pid, before)| cpu::used_by(*pid).saturating_sub(before)).collect();
    let all = all_of_postgres(bench).saturating_sub(before.1);
    let [emit, settle, retention] = used[..] else { unreachable!("three sessions") };

    let mut add = |measure, unit, value| report.add(SECTION, case, measure, unit, value);
    add("emit CPU", "µs", cpu::us_per_event(emit, events));
    add("settle CPU", "µs", cpu::us_per_event(settle, events));
    if deleted > 0 {
        add("retention CPU, an event deleted", "µs", cpu::us_per_event(retention, deleted));
    }
    let others = all.saturating_sub(emit + settle + retention);
    add("other PostgreSQL CPU", "µs", cpu::us_per_event(others, events));
    took.sort_unstable();
    let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
    add("transaction of 1,000 events, p99", "ms", p99.as_secs_f64() * 1e3);
    for (at, size) in &sizes {
        add("time of each size", "s", at.as_secs_f64());
        add("size over time", "MB", *size);
    }
    let last = sizes.last().map_or(0.0, |(_, size)| *size);
    add("size at the end", "MB", last);
    add("size at the end, of what its rows need", "×", last / ideal_size(db).await);
    println!("  {case}: {events} events in {lasted:.0?}, {deleted} deleted, {last:.0} MB at the end");
}

/// Returns how long each batch took to be emitted, and the sizes on the way, in MB, each with the time since the
/// beginning.
async fn load(
    db: &Database,
    [emitter, settler]: [&Connection; 2],
    events: u64,
    progress: &Progress,
) -> (Vec<Duration>, Vec<(Duration, f64)>) {
    let started = Instant::now();
    let (mut took, mut sizes) = (Vec::new(), Vec::new());
    for first in (1..=events).step_by(usize::try_from(BATCH).expect("a thousand")) {
        let begun = Instant::now();
        let ids = emit(emitter, first, first + BATCH - 1).await;
        took.push(begun.elapsed());
        settle(settler, &ids).await;
        progress.batches.borrow_mut().push(SystemTime::now());
        let settled = first + BATCH - 1;
        progress.settled.set(settled);
        if settled * LOOKS / events > sizes.len() as u64 {
            sizes.push((started.elapsed(), size(db, "outbox.events").await));
        }
    }
    progress.is_over.set(true);
    (took, sizes)
}

async fn emit(session: &Connection, first: u64, last: u64) -> Vec<Uuid> {
    let emit = format!(
        "SELECT array_agg(outbox.emit('order.moved', json_build_object('n', n, 'text', repeat(md5(n::text), 5)),
             'OrderMoved', 'order', (n % 100000)::text)) FROM generate_series({first}, {last}) AS n"
    );
    session.query_one(&emit, &[]).await.expect("events").get(0)
}

async fn settle(session: &Connection, ids: &[Uuid]) {
    let settle = "SELECT outbox.settle($1::uuid[], array_fill('SENT'::outbox.status, ARRAY[cardinality($1)]),
                      array_fill(NULL::text, ARRAY[cardinality($1)]))";
    session.query(settle, &[&ids]).await.expect("verdicts");
}

/// Deletes a tenth of what is kept at a time, until the load is over. Returns how many events.
async fn delete_old(session: &Connection, kept: u64, progress: &Progress) -> u64 {
    let mut deleter = Deleter::default();
    let (mut deleted, mut next) = (0, kept + kept / 10);
    while !progress.is_over.get() {
        let settled = progress.settled.get();
        if settled < next {
            tokio::time::sleep(Duration::from_millis(5)).await; // the load says nothing when it has come so far
            continue;
        }
        let last = usize::try_from((settled - kept) / BATCH).unwrap_or(usize::MAX).saturating_sub(1);
        let before = progress.batches.borrow().get(last).copied();
        if let Some(before) = before {
            deleted += deleter.delete(session, before).await;
        }
        next = settled + kept / 10;
    }
    deleted
}

async fn pid(session: &Connection) -> u32 {
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await.expect("a process id").get(0);
    pid.unsigned_abs()
}

/// CPU time of the whole server, including processes that have ended, as autovacuum's workers do.
fn all_of_postgres(bench: &Bench) -> Duration {
    let children = bench.postgres.children().into_iter().map(cpu::used_by).sum::<Duration>();
    children + cpu::used_by_ended_children(bench.postgres.pid())
}

/// MB of a table with its indexes.
async fn size(db: &Database, table: &str) -> f64 {
    let sql = format!("SELECT pg_total_relation_size('{table}')::float8 / 1e6");
    db.query_one(&sql, &[]).await.expect("a size").get(0)
}

/// MB of the same rows in a table in which nothing was ever changed.
async fn ideal_size(db: &Database) -> f64 {
    let copy = "CREATE TABLE fresh (LIKE outbox.events INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING INDEXES);
                INSERT INTO fresh SELECT * FROM outbox.events";
    db.batch_execute(copy).await.expect("a copy");
    size(db, "fresh").await
}
