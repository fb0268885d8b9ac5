//! What the relay calls is found by index, whatever PostgreSQL knows or does not know about the table.

use harness::Database;

use super::{on_both_installations, run, value};

on_both_installations!(
    settle_reads_one_row_per_event_whatever_the_statistics,
    pending_reads_what_it_returns_whatever_the_statistics,
    retention_reads_the_pages_that_it_is_told_whatever_the_statistics,
    what_rules_plans_out_compiles_none,
);

const HISTORY: &str = "INSERT INTO outbox.events (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 20000);
    UPDATE outbox.events SET status = 'SENT' WHERE seq % 100 <> 0";

/// Sessions whose plans were made while the table was empty, with statistics that are missing, of the empty table, or
/// of the full one.
async fn in_every_state_of_knowledge(db: &Database, then: impl AsyncFn(&Database, &str)) {
    for (state, before, after) in [
        ("never analysed", "", ""),
        ("analysed while empty", "VACUUM ANALYZE outbox.events", ""),
        ("analysed", "", "VACUUM ANALYZE outbox.events"),
    ] {
        run(db, "ALTER TABLE outbox.events SET (autovacuum_enabled = off); TRUNCATE outbox.events").await;
        if !before.is_empty() {
            run(db, before).await;
        }
        for _ in 0..10 {
            // PostgreSQL settles on one plan for all calls after five.
            run(db, "SELECT outbox.settle(ARRAY[gen_random_uuid()], '{SENT}', '{NULL}')").await;
            run(db, "SELECT outbox.pending_page_by_bytes(0, 10, 1000); SELECT outbox.pending_page(0, 10); SELECT outbox.due_page(10, 1000, NULL, NULL)").await;
            run(db, "SELECT outbox.delete_finished(now(), now(), 0, 10)").await;
        }
        run(db, HISTORY).await;
        if !after.is_empty() {
            run(db, after).await;
        }
        then(db, state).await;
    }
}

/// A plan that is ruled out and taken all the same, as that of a trigger or a foreign key of somebody else's, seems so
/// dear that PostgreSQL would compile it (JIT), which took minutes in a step of retention.
async fn what_rules_plans_out_compiles_none(db: Database) {
    let sql = "SELECT string_agg(proname, ' ') FROM pg_proc
               WHERE pronamespace = 'outbox'::regnamespace AND proconfig::text LIKE '%enable\\_%' AND NOT 'jit=off' = ANY (proconfig)";
    assert_eq!(db.query_one(sql, &[]).await.unwrap().get::<_, Option<String>>(0), None);
    let some =
        "SELECT count(*) > 5 FROM pg_proc WHERE pronamespace = 'outbox'::regnamespace AND 'jit=off' = ANY (proconfig)";
    assert_eq!(value(&db, some).await, "true");
}

/// Whole-table scans and rows read by index that `calls` cost.
async fn reads(db: &Database, calls: &str) -> (i64, i64) {
    let so_far = async || {
        let counted =
            "SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'outbox.events'::regclass";
        let row = db.query_one(counted, &[]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    run(db, "BEGIN").await; // within a transaction the counters are not handed over to the server's
    let before = so_far().await;
    run(db, calls).await;
    let after = so_far().await;
    run(db, "COMMIT").await;
    (after.0 - before.0, after.1 - before.1)
}

async fn settle_reads_one_row_per_event_whatever_the_statistics(db: Database) {
    in_every_state_of_knowledge(&db, async |db, state| {
        let ids = value(db, "SELECT array_agg(id) FROM outbox.events WHERE status = 'PENDING'").await;
        let settle = format!(
            "SELECT outbox.settle('{ids}', array_fill('SENT'::outbox.status, '{{200}}'), array_fill(NULL::text, '{{200}}'))"
        );
        let (scans, rows) = reads(db, &settle).await;
        assert_eq!(scans, 0, "{state}");
        assert!((200..=400).contains(&rows), "{state}: {rows} rows read for 200 events");
        assert_eq!(value(db, "SELECT count(*) FROM outbox.events WHERE status = 'PENDING'").await, "0");
    })
    .await;
}

async fn pending_reads_what_it_returns_whatever_the_statistics(db: Database) {
    in_every_state_of_knowledge(&db, async |db, state| {
        for pending in ["outbox.pending_page_by_bytes(0, 50, 1000000)", "outbox.pending_page(0, 50)"] {
            let calls =
                format!("SELECT {pending}; SELECT outbox.due_page(50, 1000000, NULL, NULL); SELECT outbox.next_due()");
            let (scans, rows) = reads(db, &calls).await;
            assert_eq!(scans, 0, "{state}: {pending}");
            assert!((50..=100).contains(&rows), "{state}: {rows} rows read for 50 events by {pending}");
        }
    })
    .await;
}

async fn retention_reads_the_pages_that_it_is_told_whatever_the_statistics(db: Database) {
    in_every_state_of_knowledge(&db, async |db, state| {
        let before: i64 = value(db, "SELECT count(*) FROM outbox.events").await.parse().unwrap();
        // The rows as they were before their verdicts are in the first pages, those with verdicts in the last.
        let last: i64 =
            value(db, "SELECT table_pages - 5 FROM outbox.delete_finished(NULL, NULL, 0, 1)").await.parse().unwrap();
        let delete = format!("SELECT outbox.delete_finished(now() + interval '1 day', NULL, {last}, 3)");
        let (scans, rows) = reads(db, &delete).await;
        let after: i64 = value(db, "SELECT count(*) FROM outbox.events").await.parse().unwrap();
        assert_eq!((scans, rows), (0, 0), "{state}: by an index or as a whole");
        assert!((1..1000).contains(&(before - after)), "{state}: {} events of three pages", before - after);
    })
    .await;
}
