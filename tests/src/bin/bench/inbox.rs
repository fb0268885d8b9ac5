//! What a consumer's inbox costs, as `sql/inbox.sql` has it, and as a table in partitions would have it.

use harness::{Database, places::checkout};

use crate::{bench::Bench, report::Report};

const SECTION: &str = "inbox";
/// What is remembered.
const ROWS: u64 = 10_000_000;
/// How many messages are received for one figure.
const RECEIVED: u64 = 50_000;
/// How many are forgotten for one figure: an hour's of a week's, about.
const FORGOTTEN: u64 = 100_000;
const PARTITIONS: [u64; 4] = [1, 6, 10, 50];

/// Receives new messages, or the same ones again, one call each; returns microseconds for each call.
const TIMED: &str = "
    CREATE TABLE ids (number int PRIMARY KEY, id uuid);
    CREATE FUNCTION timed(calls int) RETURNS float8 LANGUAGE plpgsql AS $$
    DECLARE
        all_ids uuid[] := ARRAY(SELECT id FROM ids ORDER BY number);
        is_new boolean;
        started timestamptz := clock_timestamp();
    BEGIN
        FOR number IN 1..calls LOOP
            is_new := inbox.receive('billing', all_ids[number]);
        END LOOP;
        RETURN extract(epoch FROM clock_timestamp() - started) * 1e6 / calls;
    END $$";

/// The same promise with partitions: the look in all of them, and then the key of the one that is open.
const PARTITIONED: &str = "
    CREATE SCHEMA inbox;
    CREATE TABLE inbox.received (
        message_id uuid NOT NULL, received_at timestamptz NOT NULL DEFAULT now(), generation int NOT NULL,
        replay int NOT NULL DEFAULT 0, consumer text NOT NULL COLLATE \"C\",
        PRIMARY KEY (message_id, consumer, replay, generation)
    ) PARTITION BY LIST (generation);
    CREATE FUNCTION inbox.receive(consumer text, message_id uuid, replay int DEFAULT 0) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        IF EXISTS (SELECT FROM inbox.received AS r
                   WHERE r.message_id = receive.message_id AND r.consumer = receive.consumer AND r.replay = receive.replay) THEN
            RETURN false;
        END IF;
        INSERT INTO inbox.received (message_id, consumer, replay)
        VALUES (receive.message_id, receive.consumer, receive.replay)
        ON CONFLICT DO NOTHING;
        RETURN FOUND;
    END $$";

/// Everything of this section.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    if bench.wants("one table") {
        one_table(bench, report).await;
    }
    for partitions in PARTITIONS {
        let case = format!("{partitions} partitions");
        if bench.wants(&case) {
            partitioned(bench, report, &case, partitions).await;
        }
    }
}

async fn one_table(bench: &Bench, report: &mut Report) {
    let case = "one table";
    let db = bench.stack().await.db;
    let mut psql = bench.postgres.program("psql");
    psql.args(["--quiet", "--no-psqlrc", "--dbname", db.name(), "--file"]).arg(checkout().join("sql/inbox.sql"));
    assert!(psql.status().expect("psql").success());
    let rows = bench.amount(ROWS);
    run(&db, TIMED).await;
    run(&db, &fill(rows, "", "")).await;
    report.add(SECTION, case, "size", "MB", size(&db).await);
    let forgotten = bench.amount(FORGOTTEN);
    for _ in 0..bench.runs {
        receive(bench, report, &db, case).await;
        let forget = forget_oldest(&db, forgotten).await;
        #[allow(clippy::cast_precision_loss)] // counts of a benchmark
        for (measure, sql) in [("forget, a row", &*forget), ("VACUUM, a row", "VACUUM inbox.received")] {
            let started = std::time::Instant::now();
            run(&db, sql).await;
            report.add(SECTION, case, measure, "µs", started.elapsed().as_secs_f64() * 1e6 / forgotten as f64);
        }
    }
    println!("  replacing what is remembered by as much, a tenth at a time");
    for _ in 0..10 {
        run(&db, &fill(rows / 10, "", "")).await;
        let forget = forget_oldest(&db, rows / 10).await;
        run(&db, &forget).await;
        run(&db, "VACUUM inbox.received").await;
    }
    report.add(SECTION, case, "size, replaced", "MB", size(&db).await);
}

async fn partitioned(bench: &Bench, report: &mut Report, case: &str, partitions: u64) {
    let db = bench.stack().await.db;
    run(&db, PARTITIONED).await;
    run(&db, TIMED).await;
    for number in 1..=partitions {
        run(&db, &format!("CREATE TABLE inbox.received_{number} PARTITION OF inbox.received FOR VALUES IN ({number})"))
            .await;
    }
    run(&db, &format!("ALTER TABLE ONLY inbox.received ALTER generation SET DEFAULT {partitions}")).await;
    let rows = bench.amount(ROWS);
    run(&db, &fill(rows, ", generation", &format!(", 1 + (n - 1) * {partitions} / {rows}"))).await;
    report.add(SECTION, case, "size", "MB", size(&db).await);
    for _ in 0..bench.runs {
        receive(bench, report, &db, case).await;
    }
}

/// The call that forgets so many.
async fn forget_oldest(db: &Database, rows: u64) -> String {
    let span = format!(
        "SELECT (clock_timestamp() - received_at)::text FROM inbox.received ORDER BY received_at OFFSET {rows} LIMIT 1"
    );
    let span: String = db.query_one(&span, &[]).await.expect("a row").get(0);
    format!("CALL inbox.forget('{span}')")
}

/// A message a millisecond, the last one now.
fn fill(rows: u64, column: &str, value: &str) -> String {
    format!(
        "INSERT INTO inbox.received (message_id, consumer, received_at{column})
         SELECT outbox.uuid_v7(), 'billing', clock_timestamp() - ({rows} - n) * interval '1 ms'{value}
         FROM generate_series(1::bigint, {rows}) AS n;
         ANALYZE inbox.received"
    )
}

async fn receive(bench: &Bench, report: &mut Report, db: &Database, case: &str) {
    let calls = bench.amount(RECEIVED);
    run(
        db,
        &format!(
            "TRUNCATE ids; INSERT INTO ids SELECT n, outbox.uuid_v7() FROM generate_series(1, {calls}) AS n; CHECKPOINT"
        ),
    )
    .await;
    for measure in ["receive", "receive again"] {
        let row = db.query_one(&format!("SELECT timed({calls})"), &[]).await.expect("a time");
        report.add(SECTION, case, measure, "µs", row.get(0));
    }
}

/// MB of the table with its indexes.
async fn size(db: &Database) -> f64 {
    let sql = "SELECT sum(pg_total_relation_size(oid))::float8 / 1e6 FROM pg_class
               WHERE relnamespace = 'inbox'::regnamespace AND relkind = 'r'";
    db.query_one(sql, &[]).await.expect("a size").get(0)
}

async fn run(db: &Database, sql: &str) {
    db.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}
