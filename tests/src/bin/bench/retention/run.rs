//! One case: emits, settles and deletes, each in a session of its own, and watches the size.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant, SystemTime},
};

use harness::{Connection, Database};
use uuid::Uuid;

use super::{BATCH, EVENTS, KEPT, SECTION};
use crate::{bench::Bench, cpu, report::Report};

/// How often the size is looked at.
const LOOKS: u64 = 100;

/// A table, and how events come into it and go.
pub(super) trait Shape {
    /// Emits these events, by their numbers, in one transaction.
    async fn emit(&self, session: &Connection, first: u64, last: u64) -> Vec<Uuid>;
    /// Writes the verdict `SENT` to events of one such batch.
    async fn settle(&self, session: &Connection, first: u64, ids: &[Uuid]);
    /// Deletes, of the first `old` events, what is there; all were finished before `before`. Says how many.
    async fn delete(&self, session: &Connection, old: u64, before: SystemTime) -> u64;
    /// The tables with events in them.
    fn tables(&self) -> &'static str;
}

/// How far the case has come.
struct Progress {
    /// Events that have their verdict.
    settled: Cell<u64>,
    /// When each batch had.
    batches: RefCell<Vec<SystemTime>>,
    is_over: Cell<bool>,
}

pub(super) async fn run(bench: &Bench, report: &mut Report, case: &str, db: &Database, shape: &impl Shape) {
    let events = bench.amount(EVENTS) / BATCH * BATCH;
    let [emitter, settler, janitor] = [db.connect().await, db.connect().await, db.connect().await];
    let pids = [pid(&emitter).await, pid(&settler).await, pid(&janitor).await];
    let before = (pids.map(cpu::used_by), all_of_postgres(bench));
    let progress = Progress { settled: Cell::new(0), batches: RefCell::default(), is_over: Cell::new(false) };
    let started = Instant::now();
    let ((mut took, sizes), deleted) = tokio::join!(
        load(db, shape, [&emitter, &settler], events, &progress),
        delete(shape, &janitor, events / KEPT, &progress)
    );
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
    let slowest = took.last().copied().unwrap_or_default();
    add("transaction of 1,000 events, slowest", "ms", slowest.as_secs_f64() * 1e3);
    for size in &sizes {
        add("size over time", "MB", *size);
    }
    let last = sizes.last().copied().unwrap_or_default();
    add("size at the end", "MB", last);
    let ideal = ideal_size(db, shape).await;
    add("size at the end, of what its rows need", "×", last / ideal);
    println!("  {case}: {events} events in {lasted:.0?}, {deleted} deleted, {last:.0} MB at the end");
}

/// Returns how long each batch took to be emitted, and the sizes on the way, in MB.
async fn load(
    db: &Database,
    shape: &impl Shape,
    [emitter, settler]: [&Connection; 2],
    events: u64,
    progress: &Progress,
) -> (Vec<Duration>, Vec<f64>) {
    let (mut took, mut sizes) = (Vec::new(), Vec::new());
    for first in (1..=events).step_by(usize::try_from(BATCH).expect("a thousand")) {
        let begun = Instant::now();
        let ids = shape.emit(emitter, first, first + BATCH - 1).await;
        took.push(begun.elapsed());
        shape.settle(settler, first, &ids).await;
        progress.batches.borrow_mut().push(SystemTime::now());
        let settled = first + BATCH - 1;
        progress.settled.set(settled);
        if settled * LOOKS / events > sizes.len() as u64 {
            sizes.push(size(db, shape.tables()).await);
        }
    }
    progress.is_over.set(true);
    (took, sizes)
}

/// Deletes a tenth of what is kept at a time, until the load is over. Returns how many events.
async fn delete(shape: &impl Shape, janitor: &Connection, kept: u64, progress: &Progress) -> u64 {
    let mut deleted = 0;
    let mut next = kept + kept / 10;
    while !progress.is_over.get() {
        let settled = progress.settled.get();
        if settled < next {
            tokio::time::sleep(Duration::from_millis(5)).await; // the load says nothing when it has come so far
            continue;
        }
        let old = settled - kept;
        let last = usize::try_from(old / BATCH).unwrap_or(usize::MAX).saturating_sub(1);
        let before = progress.batches.borrow().get(last).copied();
        if let Some(before) = before {
            deleted += shape.delete(janitor, old, before).await;
        }
        next = settled + kept / 10;
    }
    deleted
}

async fn pid(session: &Connection) -> u32 {
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await.expect("a process id").get(0);
    pid.unsigned_abs()
}

/// CPU time of the whole server, of processes that have ended, too, as autovacuum's workers do.
fn all_of_postgres(bench: &Bench) -> Duration {
    let children = bench.postgres.children().into_iter().map(cpu::used_by).sum::<Duration>();
    children + cpu::used_by_ended_children(bench.postgres.pid())
}

/// MB of tables with their indexes.
async fn size(db: &Database, tables: &str) -> f64 {
    let sql =
        format!("SELECT sum(pg_total_relation_size(oid))::float8 / 1e6 FROM pg_class WHERE relkind = 'r' AND {tables}");
    db.query_one(&sql, &[]).await.expect("a size").get(0)
}

/// MB of the same rows in a table in which nothing was ever changed.
async fn ideal_size(db: &Database, shape: &impl Shape) -> f64 {
    let copy = "CREATE TABLE fresh (LIKE outbox.events INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING INDEXES)";
    db.batch_execute(copy).await.expect("a table");
    let tables = format!("SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND {}", shape.tables());
    for row in db.query(&tables, &[]).await.expect("tables") {
        let table: String = row.get(0);
        db.batch_execute(&format!("INSERT INTO fresh SELECT * FROM {table}")).await.expect("a copy");
    }
    let size = size(db, "relname = 'fresh'").await;
    db.batch_execute("DROP TABLE fresh").await.expect("no table");
    size
}
