//! A long history behind few new events: what the relay does costs the same as on an empty table.

use std::time::Instant;

use harness::{Connection, Database, Postgres, RabbitMq, SOON, Stack, eventually};
use uuid::Uuid;

use super::{LONG, size};

const FAILED: i64 = 100;
/// Events that each part of the work moves.
const PART: i64 = 2_000;
/// Finished events that are replayed one by one.
const REPLAYED: i64 = 10;

/// Finished rows, past the triggers, in two sessions at once; the last hundred are `FAILED`.
async fn make_history(db: &Database, rows: i64) {
    let half = async |from: i64, to: i64| {
        let sql = format!(
            "SET jit = off;
             INSERT INTO outbox.events (seq, topic, payload, status, attempts) OVERRIDING SYSTEM VALUE
             SELECT i, CASE WHEN i > {failed_from} THEN 'broken' ELSE 't' END, '1',
                    CASE WHEN i > {failed_from} THEN 'FAILED' ELSE 'SENT' END::outbox.status, 1
             FROM generate_series({from}::bigint, {to}) i",
            failed_from = rows - FAILED,
        );
        db.connect().await.batch_execute(&sql).await.unwrap();
    };
    db.batch_execute("ALTER TABLE outbox.events DISABLE TRIGGER USER").await.unwrap();
    tokio::join!(half(1, rows / 2), half(rows / 2 + 1, rows));
    db.batch_execute("ALTER TABLE outbox.events ENABLE TRIGGER USER").await.unwrap();
    let sql = format!("SELECT setval(pg_get_serial_sequence('outbox.events', 'seq'), {rows})");
    db.batch_execute(&sql).await.unwrap();
}

/// What the server did to the table so far: scans of all of it, and blocks of it and its indexes that were looked at.
#[derive(Debug)]
struct Cost {
    scans: i64,
    blocks: i64,
}

/// Waits until the server has counted so many inserted rows, and as many updates of the relay, whose sessions have
/// ended. An insert that is rolled back is counted, too, and comes after all else that this session did.
async fn cost(db: &Connection, inserted: i64, updated: i64) -> Cost {
    db.batch_execute("BEGIN; SELECT outbox.emit('counted', '1'); ROLLBACK").await.unwrap();
    let sql = "SELECT t.seq_scan, heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit, n_tup_ins, n_tup_upd,
                      (SELECT count(*) FROM pg_stat_activity a
                       WHERE a.datname = current_database() AND a.backend_type <> 'autovacuum worker')
               FROM pg_stat_user_tables t JOIN pg_statio_user_tables io USING (relid)
               WHERE relid = 'outbox.events'::regclass";
    eventually("the server has counted all that was done", SOON, async || {
        let row = db.query_one(sql, &[]).await.unwrap();
        let seen: [i64; 3] = [row.get(2), row.get(3), row.get(4)];
        let cost = Cost { scans: row.get(0), blocks: row.get(1) };
        if seen == [inserted + 1, updated, 1] { Ok(cost) } else { Err(seen) }
    })
    .await
}

/// A start with a backlog, the stream, replays, a stop; and what all of it cost.
async fn work_on(stack: &Stack, history: i64) -> Cost {
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let before = cost(&stack.db, history, 0).await;
    let emit = |events: i64| format!("SELECT outbox.emit('new', to_jsonb(i)) FROM generate_series(1, {events}) i");
    stack.db.batch_execute(&emit(PART)).await.unwrap();
    let relay = stack.relay().start().await;
    for _ in 0..20 {
        stack.db.batch_execute(&emit(PART / 20)).await.unwrap();
    }
    consumer.wait_for_within((2 * PART) as usize, LONG).await;
    stack.db.batch_execute("SELECT outbox.replay_many(topic => 'broken')").await.unwrap();
    let oldest = format!("SELECT id FROM outbox.events ORDER BY id LIMIT {REPLAYED}");
    for row in stack.db.query(&oldest, &[]).await.unwrap() {
        stack.db.execute("SELECT outbox.replay($1)", &[&row.get::<_, Uuid>(0)]).await.unwrap();
    }
    stack.db.batch_execute("SELECT * FROM outbox.backlog; SELECT * FROM outbox.failed").await.unwrap();
    let all = 2 * PART + FAILED + REPLAYED;
    let arrived = consumer.wait_for_within(all as usize, LONG).await;
    assert!(relay.stop().await.success());
    let after = cost(&stack.db, history + 1 + 2 * PART, all + FAILED + REPLAYED).await;
    assert_eq!(arrived.len() as i64, all, "each of them once");
    Cost { scans: after.scans - before.scans, blocks: after.blocks - before.blocks }
}

/// With another length: `EVENTS=1000000 make test T=data::history`
#[tokio::test]
async fn ten_million_finished_events_make_start_pass_stream_settle_and_replay_no_dearer() {
    let rows = size("EVENTS", 10_000_000);
    let private = [
        ("autovacuum", "off"), // nothing is known about the table, which is the hardest case
        ("fsync", "off"),
        ("full_page_writes", "off"),
        ("max_wal_size", "20GB"),
        ("shared_buffers", "512MB"),
    ];
    let postgres = private.iter().fold(Postgres::private(), |server, (name, value)| server.set(name, value));
    let (postgres, rabbitmq) = tokio::join!(postgres.start(), RabbitMq::shared());
    let (short, long) = (Stack::on(&postgres, rabbitmq).await, Stack::on(&postgres, rabbitmq).await);
    let start = Instant::now();
    make_history(&short.db, 1_000).await;
    make_history(&long.db, rows).await;
    println!("{rows} rows in {:?}", start.elapsed());

    let (flat, work) = (work_on(&short, 1_000).await, work_on(&long, rows).await);
    println!("with 1000 rows {flat:?}, with {rows} {work:?}");
    assert_eq!(work.scans, 0, "no scan of the whole history");
    // Their indexes are deeper by two or three levels, so a little is allowed.
    assert!(2 * work.blocks < 3 * flat.blocks, "{work:?} with a history, {flat:?} without");
    let sql = "SELECT count(*) FROM outbox.events WHERE status <> 'SENT'";
    let left: i64 = long.db.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
}
