//! What an event costs the application's own transaction: CPU of the backend that emits, beside the same INSERT written
//! by hand.
//!
//! Parameters are bound to prepared statements and the calls are pipelined, so that the backend parses nothing and is
//! seldom woken: what is left is the work itself. Transactions are long, so that neither is it the disk's time.

mod ways;

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use harness::Connection;
use serde_json::{Value, json};
use tokio_postgres::{Statement, types::ToSql};

use crate::{
    bench::Bench,
    cpu::{us_per_event, used_by},
    report::Report,
};
use ways::{TABLES_AND_FUNCTION, WAYS, Way};

/// Calls of each way in a run.
const CALLS: u64 = 20_000;
/// Calls in a transaction, and in one turn: then it is the next way's.
const IN_A_TRANSACTION: u64 = 1_000;
/// Rows of a set-based statement.
const ROWS: u64 = 100_000;
/// What all the others are compared with.
const INSERT: &str = "INSERT";

/// All ways, alternating.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    let stack = bench.stack().await;
    let db = Session::open(stack.db.connect().await).await;
    let turns = bench.amount(CALLS).div_ceil(IN_A_TRANSACTION);
    let rows = bench.amount(ROWS);
    db.compare("single", turns, IN_A_TRANSACTION, async |way| db.single(way).await).await; // warm-up
    for _ in 0..bench.runs {
        let single = db.compare("single", turns, IN_A_TRANSACTION, async |way| db.single(way).await).await;
        add(report, &single);
        let in_a_loop = async |way: &Way| match way.in_a_loop {
            Some(body) => db.in_a_loop(body).await.into(),
            None => None,
        };
        add(report, &db.compare("from PL/pgSQL", turns, IN_A_TRANSACTION, in_a_loop).await);
        add(report, &db.compare("set-based", 1, rows, async |way| Some(db.set_based(way, rows).await)).await);
    }
}

/// A case, and microseconds an event.
type Cost = (String, f64);

/// Adds a run: the costs, and each beside that of the plain INSERT.
fn add(report: &mut Report, costs: &[Cost]) {
    let insert = costs.iter().find(|(case, _)| case.starts_with(&format!("{INSERT}, "))).expect("INSERT is measured").1;
    for (case, cost) in costs {
        report.add("emit", case, "backend CPU", "µs", *cost);
        report.add("emit", case, "of INSERT", "×", cost / insert);
        println!("{case:<34} {cost:>7.2} µs  {:>5.2} × INSERT", cost / insert);
    }
}

/// The application's session, and the process that serves it.
struct Session {
    client: Connection,
    backend: u32,
    /// The single call of each way, by its name.
    prepared: Vec<(&'static str, Statement)>,
}

impl Session {
    async fn open(client: Connection) -> Self {
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.expect("a pid").get(0);
        client.batch_execute(TABLES_AND_FUNCTION).await.expect("what to compare with");
        let prepare = WAYS.iter().map(async |way| (way.name, client.prepare(way.single).await.expect("prepare")));
        let prepared = join_all(prepare).await;
        Self { client, backend: pid.cast_unsigned(), prepared }
    }

    /// Gives every way its turn, `turns` times, forwards and backwards in turn: none is always the first or the last.
    async fn compare(
        &self,
        how: &str,
        turns: u64,
        events: u64,
        turn: impl AsyncFn(&Way) -> Option<Duration>,
    ) -> Vec<Cost> {
        let mut used = [Some(Duration::ZERO); WAYS.len()];
        let mut order: Vec<_> = WAYS.iter().zip(&mut used).collect();
        for _ in 0..turns {
            for (way, used) in &mut order {
                let set = format!("SET outbox.direct_writes = {}", way.direct_writes);
                self.client.batch_execute(&set).await.expect("a setting");
                **used = turn(way).await.and_then(|turn| Some(turn + (**used)?));
            }
            order.reverse();
        }
        drop(order);
        let cost = |(way, used): (&Way, Option<Duration>)| {
            Some((format!("{}, {how}", way.name), us_per_event(used?, turns * events)))
        };
        WAYS.iter().zip(used).filter_map(cost).collect()
    }

    /// A transaction of single calls.
    async fn single(&self, way: &Way) -> Option<Duration> {
        // Prepared long before, as by an application's pool: planned once and for all after the first few calls.
        let (_, statement) = self.prepared.iter().find(|(name, _)| *name == way.name).expect("it was prepared");
        let payload = json!({ "order": 4711, "moved_to": "station 12", "text": "x".repeat(150) });
        let keys: Vec<String> = (0..IN_A_TRANSACTION).map(|number| number.to_string()).collect();
        let calls: Vec<[&(dyn ToSql + Sync); 5]> = keys.iter().map(|key| envelope(&payload, key)).collect();
        let work = async {
            self.client.batch_execute("BEGIN").await.expect("BEGIN");
            let calls = calls.iter().map(|parameters| self.client.query(statement, parameters));
            try_join_all(calls).await.expect("the calls");
            self.client.batch_execute("COMMIT").await.expect("COMMIT");
        };
        Some(self.used_for(work).await)
    }

    /// A transaction of calls from PL/pgSQL.
    async fn in_a_loop(&self, body: &str) -> Duration {
        let block = format!(
            "DO $$
             DECLARE
                 body json := json_build_object('order', 4711, 'moved_to', 'station 12', 'text', repeat('x', 150));
             BEGIN
                 FOR i IN 1..{IN_A_TRANSACTION} LOOP
                     {body};
                 END LOOP;
             END $$"
        );
        self.used_for(async { self.client.batch_execute(&block).await.expect("the block") }).await
    }

    /// One statement that makes many events.
    async fn set_based(&self, way: &Way, rows: u64) -> Duration {
        let sql = way.set_based.replace("$rows", &rows.to_string());
        self.used_for(async { self.client.batch_execute(&sql).await.expect("the statement") }).await
    }

    /// The backend's CPU time.
    async fn used_for(&self, work: impl Future<Output = ()>) -> Duration {
        let before = used_by(self.backend);
        work.await;
        used_by(self.backend).saturating_sub(before)
    }
}

/// The parameters of every single call.
fn envelope<'a>(payload: &'a Value, key: &'a String) -> [&'a (dyn ToSql + Sync); 5] {
    [&"order.moved", payload, &"OrderMoved", &"order", key]
}
