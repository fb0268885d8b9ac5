//! What the relay calls is found by index, whatever PostgreSQL knows or does not know about the table.

use harness::Database;

use super::{on_both_installations, run, value};

on_both_installations!(
    settle_reads_one_row_per_event_whatever_the_statistics,
    pending_reads_what_it_returns_whatever_the_statistics,
);

const HISTORY: &str = "INSERT INTO outbox.events (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 20000);
    UPDATE outbox.events SET status = 'SENT' WHERE seq % 100 <> 0";

/// Sessions whose plans were made while the table was empty, with statistics that are missing, of the empty table, or of
/// the full one.
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
            run(db, "SELECT outbox.pending(0, 10, 1000); SELECT outbox.due(10, 1000, NULL, NULL)").await;
        }
        run(db, HISTORY).await;
        if !after.is_empty() {
            run(db, after).await;
        }
        then(db, state).await;
    }
}

/// Rows read and tables scanned in the transaction that is open.
async fn reads(db: &Database) -> (String, i64) {
    let row = db
        .query_one(
            "SELECT seq_scan::text || ' scans', idx_tup_fetch FROM pg_stat_xact_user_tables
             WHERE schemaname = 'outbox' AND relname = 'events'",
            &[],
        )
        .await
        .unwrap();
    (row.get(0), row.get(1))
}

async fn settle_reads_one_row_per_event_whatever_the_statistics(db: Database) {
    in_every_state_of_knowledge(&db, async |db, state| {
        let ids = value(db, "SELECT array_agg(id) FROM outbox.events WHERE status = 'PENDING'").await;
        run(db, "BEGIN").await;
        run(
            db,
            &format!("SELECT outbox.settle('{ids}', array_fill('SENT'::outbox.status, '{{200}}'), array_fill(NULL::text, '{{200}}'))"),
        )
        .await;
        let (scans, rows) = reads(db).await;
        run(db, "COMMIT").await;
        assert_eq!(scans, "0 scans", "{state}");
        assert!((200..=400).contains(&rows), "{state}: {rows} rows read for 200 events");
        assert_eq!(value(db, "SELECT count(*) FROM outbox.events WHERE status = 'PENDING'").await, "0");
    })
    .await;
}

async fn pending_reads_what_it_returns_whatever_the_statistics(db: Database) {
    in_every_state_of_knowledge(&db, async |db, state| {
        run(db, "BEGIN").await;
        assert_eq!(value(db, "SELECT count(*) FROM outbox.pending(0, 50, 1000000)").await, "50");
        assert_eq!(value(db, "SELECT count(*) FROM outbox.due(50, 1000000, NULL, NULL)").await, "0");
        assert_eq!(value(db, "SELECT outbox.next_due() IS NULL").await, "true");
        let (scans, rows) = reads(db).await;
        run(db, "COMMIT").await;
        assert_eq!(scans, "0 scans", "{state}");
        assert!(rows <= 100, "{state}: {rows} rows read for 50 events");
    })
    .await;
}
