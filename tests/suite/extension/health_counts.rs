//! What `outbox.health()` and `outbox.failures()` count, and what the counting costs.

use harness::{Database, SOON, eventually};

use super::{on_both_installations, run, value};

on_both_installations!(
    an_event_is_counted_in_one_state,
    a_refused_event_is_retrying_also_when_its_next_time_has_come,
    a_replayed_event_is_pending_again,
    counts_are_exact_up_to_ten_thousand_and_estimates_beyond,
    a_backlog_with_gaps_is_estimated_by_what_is_there,
    health_reads_a_bounded_part_of_the_table_whatever_the_statistics,
    failures_are_grouped_by_topic_and_error_from_the_latest,
);

const COUNTS: &str = "SELECT concat_ws(' ', pending, retrying, scheduled, failed, keys_held) FROM outbox.health()";

async fn an_event_is_counted_in_one_state(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('t', to_jsonb(n), aggregate_id => 'k' || n,
             available_at => CASE WHEN n = 8 THEN now() + interval '1 hour' WHEN n = 9 THEN clock_timestamp() + interval '1 ms' END)
         FROM generate_series(1, 9) AS n;
         UPDATE outbox.events SET status = 'FAILED', last_error = 'nack' WHERE payload::text IN ('1', '2');
         UPDATE outbox.events SET status = 'SENT' WHERE payload::text = '3';
         SELECT outbox.settle(array_agg(id), '{PENDING,PENDING}', '{nack,nack}', '{60000,60000}', '{true,false}')
         FROM outbox.events WHERE payload::text IN ('4', '5')",
    )
    .await;
    eventually("the last one is due", SOON, async || match value(&db, COUNTS).await {
        counts if counts == "3 2 1 2 1" => Ok(()),
        other => Err(other),
    })
    .await;
    let oldest = "SELECT oldest_pending BETWEEN '0' AND '1 min' AND oldest_retrying BETWEEN '0' AND '1 min' FROM outbox.health()";
    assert_eq!(value(&db, oldest).await, "true");
    let backlog = "SELECT concat_ws(' ', pending, retrying, scheduled, failed) FROM outbox.backlog";
    assert_eq!(value(&db, backlog).await, "3 2 1 2", "the same words mean the same");
}

async fn a_refused_event_is_retrying_also_when_its_next_time_has_come(db: Database) {
    run(&db, "SELECT outbox.emit('t', to_jsonb(n)) FROM generate_series(1, 2) AS n").await;
    // One counted attempt, and one that did not count, both to be repeated at once.
    run(&db, "SELECT outbox.settle(array_agg(id), '{PENDING,PENDING}', '{nack,NULL}', '{0,0}') FROM outbox.events")
        .await;
    assert_eq!(value(&db, COUNTS).await, "0 2 0 0 0");
    assert_eq!(value(&db, "SELECT concat_ws(' ', pending, retrying, oldest_pending) FROM outbox.backlog").await, "0 2");
}

async fn a_replayed_event_is_pending_again(db: Database) {
    run(&db, "SELECT outbox.emit('t', '{}', available_at => now() - interval '1 s')").await;
    run(&db, "SELECT outbox.settle(array_agg(id), '{PENDING}', '{nack}', '{0}') FROM outbox.events").await;
    run(&db, "SELECT outbox.settle(array_agg(id), '{FAILED}', '{nack}') FROM outbox.events").await;
    assert_eq!(value(&db, COUNTS).await, "0 0 0 1 0");
    run(&db, "SELECT outbox.replay(id) FROM outbox.events").await;
    assert_eq!(value(&db, COUNTS).await, "1 0 0 0 0");
}

async fn counts_are_exact_up_to_ten_thousand_and_estimates_beyond(db: Database) {
    run(&db, "INSERT INTO outbox.events (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 10000)").await;
    let pending = "SELECT concat_ws(' ', pending, pending_is_estimate) FROM outbox.health()";
    assert_eq!(value(&db, pending).await, "10000 f");
    run(&db, "INSERT INTO outbox.events (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 20000)").await;
    assert_eq!(value(&db, pending).await, "30000 t", "without a gap in seq the estimate is exact");
    run(&db, "UPDATE outbox.events SET status = 'FAILED'").await;
    let failed = "SELECT concat_ws(' ', pending, pending_is_estimate, failed, failed_is_estimate) FROM outbox.health()";
    assert_eq!(value(&db, failed).await, "0 f 30000 t");
    run(
        &db,
        "TRUNCATE outbox.events;
         INSERT INTO outbox.events (topic, payload, available_at) SELECT 'a', '{}', now() + interval '1 h' FROM generate_series(1, 12000);
         ANALYZE outbox.events",
    )
    .await;
    let scheduled = "SELECT concat_ws(' ', pending, pending_is_estimate, retrying, scheduled, scheduled_is_estimate) FROM outbox.health()";
    assert_eq!(value(&db, scheduled).await, "0 f 0 12000 t");
}

async fn a_backlog_with_gaps_is_estimated_by_what_is_there(db: Database) {
    run(
        &db,
        "ALTER TABLE outbox.events SET (autovacuum_enabled = off);
         INSERT INTO outbox.events (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 60000);
         UPDATE outbox.events SET status = 'SENT' WHERE seq % 3 = 0 OR seq BETWEEN 30000 AND 40000",
    )
    .await;
    let off = "SELECT abs(pending::numeric / (SELECT count(*) FROM outbox.events WHERE status = 'PENDING') - 1) < 0.1
               FROM outbox.health()";
    assert_eq!(value(&db, off).await, "true");
}

async fn health_reads_a_bounded_part_of_the_table_whatever_the_statistics(db: Database) {
    run(&db, "ALTER TABLE outbox.events SET (autovacuum_enabled = off)").await;
    run(&db, "VACUUM ANALYZE outbox.events").await;
    let looks = "SELECT outbox.health(max_pending_age => '-1 s'), outbox.failures()";
    for _ in 0..10 {
        run(&db, looks).await; // PostgreSQL settles on one plan after five
    }
    run(
        &db,
        "INSERT INTO outbox.events (topic, payload, aggregate_id, available_at)
             SELECT 'a', '{}', 'k', CASE WHEN n % 3 = 0 THEN now() END FROM generate_series(1, 150000) AS n;
         UPDATE outbox.events SET status = 'FAILED' WHERE seq % 3 = 1",
    )
    .await;
    let so_far = "SELECT concat_ws(' ', seq_scan, idx_tup_fetch) FROM pg_stat_xact_user_tables WHERE relid = 'outbox.events'::regclass";
    let counts = async || {
        let text = value(&db, so_far).await;
        let numbers: Vec<i64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        (numbers[0], numbers[1])
    };
    let hold = "SELECT outbox.settle(array_agg(id), '{FAILED}', '{nack}', '{NULL}', '{true}') FROM outbox.events WHERE seq = 2";
    // With a held key, the oldest pending events and those that are due are asked for their holder.
    for (set_up, most) in [("", 75_000), (hold, 115_000)] {
        run(&db, set_up).await;
        run(&db, "BEGIN").await;
        let before = counts().await;
        run(&db, looks).await;
        let after = counts().await;
        run(&db, "COMMIT").await;
        assert_eq!(after.0 - before.0, 0, "scans of the whole table");
        assert!(after.1 - before.1 < most, "{} rows read", after.1 - before.1);
    }
}

async fn failures_are_grouped_by_topic_and_error_from_the_latest(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('t' || n % 2, to_jsonb(n), aggregate_id => 'k') FROM generate_series(1, 5) AS n;
         UPDATE outbox.events SET status = 'FAILED', last_error = CASE WHEN payload::text = '5' THEN 'nack' ELSE '312 NO_ROUTE' END",
    )
    .await;
    let groups = "SELECT string_agg(concat_ws(' ', topic, last_error, failed, keys_held, (SELECT payload FROM outbox.events WHERE id = example_id)), ', ')
                  FROM outbox.failures";
    assert_eq!(value(&db, &format!("{groups}()")).await, "t0 312 NO_ROUTE 2 0 4, t1 312 NO_ROUTE 2 0 3, t1 nack 1 0 5");
    assert_eq!(value(&db, &format!("{groups}(2)")).await, "t0 312 NO_ROUTE 1 0 4, t1 nack 1 0 5", "the latest two");
}
