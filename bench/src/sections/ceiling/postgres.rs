//! PostgreSQL alone: decoding events, and settling them, without publishing any.

use std::{
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use harness::{Database, Postgres, eventually};
use uuid::Uuid;

use crate::{
    bench::{Bench, LONG, quiet, rate},
    cost::wal_position,
    cpu,
    load::{Load, Payload},
    report::Report,
};

const LOAD: Load = Load { payload: Payload::B200, keys: 100_000 };

/// `pg_recvlogical` reads the events of 100,000 rows with the relay's plugin and options and throws them away.
pub(super) async fn decode(bench: &Bench, report: &mut Report) {
    let db = bench.postgres.database().await;
    let (name, events) = (db.name(), bench.amount(100_000));
    let prepare = format!("CREATE PUBLICATION {name} FOR TABLE outbox.events WITH (publish = 'insert')");
    db.batch_execute(&prepare).await.expect("CREATE PUBLICATION");
    let slot = "SELECT pg_create_logical_replication_slot($1::text::name, 'pgoutput')::text";
    db.query_one(slot, &[&name]).await.expect("a slot");
    LOAD.emit(&db, events).await;
    let end = wal_position(&db).await;

    let start = Instant::now();
    let mut receiver = receive(&bench.postgres, &db);
    let sent = "SELECT pid, coalesce(sent_lsn - '0/0' >= $2::text::numeric, false) FROM pg_stat_replication
                WHERE application_name = 'pg_recvlogical' AND $1 <> ''";
    let walsender = eventually("all is decoded", LONG, async || {
        let row = db.query_opt(sent, &[&name, &end.to_string()]).await.expect("pg_stat_replication");
        match row.map(|row| (row.get::<_, i32>(0), row.get::<_, bool>(1))) {
            Some((pid, true)) => Ok(pid.unsigned_abs()),
            other => Err(other),
        }
    })
    .await;
    let took = start.elapsed();
    let used = cpu::used_by(walsender);
    receiver.kill().and_then(|()| receiver.wait()).expect("pg_recvlogical ends");
    add(report, "decode, 200 B", events, took, used);
}

fn receive(postgres: &Postgres, db: &Database) -> Child {
    let publication = format!("publication_names={}", db.name());
    let mut command = postgres.program("pg_recvlogical");
    command.args(["--start", "--file=-", "--no-loop", "--dbname", db.name(), "--slot", db.name()]);
    command.args(["-o", "proto_version=1", "-o", &publication, "-o", "messages=true"]);
    command.env("PGAPPNAME", "pg_recvlogical").stdout(Stdio::null());
    command.spawn().expect("pg_recvlogical starts")
}

/// One session settles 100,000 rows, 1,000 a call, with the relay's statement.
pub(super) async fn settle(bench: &Bench, report: &mut Report) {
    let db = bench.postgres.database().await;
    let events = bench.amount(100_000);
    LOAD.emit(&db, events).await;
    let ids: Vec<Uuid> = db
        .query("SELECT id FROM outbox.events ORDER BY seq", &[])
        .await
        .expect("ids")
        .iter()
        .map(|row| row.get(0))
        .collect();
    let settle = db
        .prepare("SELECT id, status::text FROM outbox.settle($1, $2::text[]::outbox.status[], $3, $4, $5, $6)")
        .await
        .expect("outbox.settle");
    quiet(&db).await;

    let backend: i32 = db.query_one("SELECT pg_backend_pid()", &[]).await.expect("a pid").get(0);
    let backend = backend.unsigned_abs();
    let (start, cpu_before, wal_before) = (Instant::now(), cpu::used_by(backend), wal_position(&db).await);
    for batch in ids.chunks(1000) {
        let (statuses, errors) = (vec!["SENT"; batch.len()], vec![None::<&str>; batch.len()]);
        let (retry_ms, holds) = (Vec::<Option<i32>>::new(), Vec::<bool>::new());
        let not_written =
            db.query(&settle, &[&batch, &statuses, &errors, &retry_ms, &holds, &false]).await.expect("settle");
        assert!(not_written.is_empty(), "settle leaves rows: {not_written:?}");
    }
    let took = start.elapsed();
    let (used, wal) = (cpu::used_by(backend) - cpu_before, wal_position(&db).await - wal_before);
    add(report, "settle", events, took, used);
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    report.add("ceiling", "settle", "WAL", "B", wal as f64 / events as f64);
}

fn add(report: &mut Report, case: &str, events: u64, took: Duration, used: Duration) {
    let (rate, used) = (rate(events, took), cpu::us_per_event(used, events));
    println!("  PostgreSQL alone, {case}: {rate:.0}/s, {used:.1} µs");
    report.add("ceiling", case, "rate", "/s", rate);
    report.add("ceiling", case, "PostgreSQL CPU", "µs", used);
}
