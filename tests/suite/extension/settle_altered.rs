//! What a DBA adds to `outbox.events` counts for `settle()` from the next call on, in sessions that have settled
//! before, too.

use harness::Database;

use super::{
    on_both_installations, refusal, run,
    settle::{SENT, SETTLE_ALL as SETTLE},
    value,
};

on_both_installations!(
    a_trigger_of_the_users_runs_for_each_verdict,
    a_trigger_on_a_column_that_settle_names_runs_for_each_verdict,
    a_constraint_that_is_added_is_enforced,
    a_column_that_must_not_be_null_is_respected_and_the_next_batch_is_written,
    a_column_that_is_added_keeps_its_default,
    an_index_that_is_added_finds_the_verdict,
    a_constraint_that_is_checked_later_is_left_to_later,
    a_table_in_the_place_of_another_is_the_one_that_is_written,
    a_large_payload_stays_whole,
    a_verdict_that_is_rolled_back_is_not_there,
    a_read_only_transaction_cannot_settle,
    what_follows_in_the_same_statement_sees_the_verdict,
    a_trigger_in_the_place_of_ours_runs_for_each_verdict,
    a_column_that_is_dropped_leaves_nothing_in_rows_that_are_written,
);

/// A trigger function that writes down whom it was called for.
const AUDIT: &str = "CREATE TABLE audit (id uuid);
    CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO public.audit VALUES (new.id); RETURN NULL; END'";
const AUDITED: &str = "SELECT count(*) FROM audit";

async fn emit(db: &Database, events: u32) {
    run(db, &format!("SELECT outbox.emit('t', to_jsonb(n)) FROM generate_series(1, {events}) AS n")).await;
}

/// One event that this session has settled, and three that are pending.
async fn settled_once(db: &Database) {
    emit(db, 1).await;
    run(db, SETTLE).await;
    emit(db, 3).await;
}

async fn a_trigger_of_the_users_runs_for_each_verdict(db: Database) {
    settled_once(&db).await;
    run(&db, AUDIT).await;
    run(&db, "CREATE TRIGGER audit AFTER UPDATE OF status ON outbox.events FOR EACH ROW EXECUTE FUNCTION audit()")
        .await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, AUDITED).await, "3");
    run(&db, "DROP TRIGGER audit ON outbox.events").await;
    emit(&db, 2).await;
    run(&db, SETTLE).await;
    assert_eq!((value(&db, AUDITED).await, value(&db, SENT).await), ("3".into(), "6".into()));
}

async fn a_trigger_on_a_column_that_settle_names_runs_for_each_verdict(db: Database) {
    settled_once(&db).await;
    run(&db, AUDIT).await;
    for column in ["status", "attempts", "holds_key", "available_at", "last_error", "last_attempted_at", "processed_at"]
    {
        let trigger = format!(
            "CREATE OR REPLACE TRIGGER audit AFTER UPDATE OF {column} ON outbox.events FOR EACH ROW EXECUTE FUNCTION audit()"
        );
        run(&db, &trigger).await;
        run(&db, SETTLE).await;
        assert_eq!(value(&db, AUDITED).await, "3", "{column}");
        run(&db, "DROP TRIGGER audit ON outbox.events; DELETE FROM audit").await;
        run(&db, "UPDATE outbox.events SET status = 'PENDING' WHERE seq > 1").await;
    }
}

async fn a_constraint_that_is_added_is_enforced(db: Database) {
    settled_once(&db).await;
    run(&db, "ALTER TABLE outbox.events ADD CONSTRAINT no CHECK (attempts < 1 OR payload::text <> '2')").await;
    assert_eq!(refusal(&db, SETTLE).await.code().code(), "23514");
    assert_eq!(value(&db, SENT).await, "1");
    run(&db, "ALTER TABLE outbox.events DROP CONSTRAINT no").await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, SENT).await, "4");
}

async fn a_column_that_must_not_be_null_is_respected_and_the_next_batch_is_written(db: Database) {
    settled_once(&db).await;
    run(&db, "UPDATE outbox.events SET status = 'FAILED', last_error = 'x' WHERE payload::text <> '1'").await;
    run(&db, "DELETE FROM outbox.events WHERE last_error IS NULL").await;
    run(&db, "ALTER TABLE outbox.events ALTER last_error SET NOT NULL").await;
    run(&db, "UPDATE outbox.events SET status = 'PENDING'").await;
    for _ in 0..2 {
        assert_eq!(refusal(&db, SETTLE).await.code().code(), "23502");
    }
    assert_eq!(value(&db, SENT).await, "0");
    run(&db, "ALTER TABLE outbox.events ALTER last_error DROP NOT NULL").await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, SENT).await, "2");
}

async fn a_column_that_is_added_keeps_its_default(db: Database) {
    settled_once(&db).await;
    // No row is rewritten for the new column: those that are there get its value when they are read.
    run(&db, "ALTER TABLE outbox.events ADD COLUMN region text DEFAULT 'eu', ADD COLUMN nothing int").await;
    run(&db, "ALTER TABLE outbox.events DROP COLUMN nothing").await;
    run(&db, SETTLE).await;
    let rows = "SELECT string_agg(concat_ws(' ', payload, region, status), ', ' ORDER BY seq) FROM outbox.events";
    assert_eq!(value(&db, rows).await, "1 eu SENT, 1 eu SENT, 2 eu SENT, 3 eu SENT");
}

async fn an_index_that_is_added_finds_the_verdict(db: Database) {
    settled_once(&db).await;
    run(&db, "CREATE INDEX by_time ON outbox.events (processed_at)").await;
    run(&db, SETTLE).await;
    let by_index = "SELECT count(*) FROM outbox.events WHERE processed_at > '-infinity'";
    run(&db, "SET enable_seqscan = off; SET enable_bitmapscan = off").await;
    assert_eq!(value(&db, by_index).await, "4");
}

async fn a_constraint_that_is_checked_later_is_left_to_later(db: Database) {
    settled_once(&db).await;
    run(&db, "ALTER TABLE outbox.events ADD UNIQUE (topic, processed_at) DEFERRABLE INITIALLY DEFERRED").await;
    run(&db, "UPDATE outbox.events SET status = 'PENDING' WHERE status = 'SENT'").await;
    // Their topics and times are the same: refused, but not before the end.
    run(&db, "BEGIN").await;
    run(&db, SETTLE).await;
    assert_eq!(refusal(&db, "COMMIT").await.code().code(), "23505");
    run(&db, "ALTER TABLE outbox.events DROP CONSTRAINT events_topic_processed_at_key").await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, SENT).await, "4");
}

async fn a_table_in_the_place_of_another_is_the_one_that_is_written(db: Database) {
    settled_once(&db).await;
    run(
        &db,
        "CREATE TABLE outbox.next (LIKE outbox.events INCLUDING ALL);
         INSERT INTO outbox.next OVERRIDING SYSTEM VALUE SELECT * FROM outbox.events WHERE status = 'PENDING';
         ALTER TABLE outbox.events RENAME TO before; ALTER TABLE outbox.next RENAME TO events",
    )
    .await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, SENT).await, "3");
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.before WHERE status = 'SENT'").await, "1");
}

async fn a_large_payload_stays_whole(db: Database) {
    settled_once(&db).await;
    let large = "SELECT outbox.emit('t', to_jsonb(string_agg(md5(n::text), ''))) FROM generate_series(1, 2000) AS n";
    run(&db, large).await;
    let sum = "SELECT md5(string_agg(md5(payload::text), '' ORDER BY seq)) FROM outbox.events";
    let before = value(&db, sum).await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, SENT).await, "5");
    run(&db, "VACUUM outbox.events").await;
    assert_eq!(value(&db, sum).await, before);
}

async fn a_verdict_that_is_rolled_back_is_not_there(db: Database) {
    settled_once(&db).await;
    run(&db, "BEGIN; SAVEPOINT s").await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, SENT).await, "4");
    run(&db, "ROLLBACK TO s").await;
    assert_eq!(value(&db, SENT).await, "1");
    run(&db, SETTLE).await;
    run(&db, "COMMIT").await;
    assert_eq!(value(&db, SENT).await, "4");
    assert_eq!(value(&db, "SELECT max(attempts) FROM outbox.events").await, "1");
}

async fn a_read_only_transaction_cannot_settle(db: Database) {
    settled_once(&db).await;
    run(&db, "BEGIN READ ONLY").await;
    assert_eq!(refusal(&db, SETTLE).await.code().code(), "25006");
    run(&db, "ROLLBACK").await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, SENT).await, "4");
}

async fn what_follows_in_the_same_statement_sees_the_verdict(db: Database) {
    settled_once(&db).await;
    run(
        &db,
        &format!(
            "CREATE FUNCTION seen() RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM {0}; RETURN ({SENT}); END $$",
            &SETTLE[7..]
        ),
    )
    .await;
    assert_eq!(value(&db, "SELECT seen()").await, "4");
}

async fn a_trigger_in_the_place_of_ours_runs_for_each_verdict(db: Database) {
    settled_once(&db).await;
    run(&db, AUDIT).await;
    run(
        &db,
        "CREATE OR REPLACE TRIGGER notify_status AFTER UPDATE OF status ON outbox.events
             FOR EACH ROW WHEN (new.status <> old.status) EXECUTE FUNCTION audit()",
    )
    .await;
    run(&db, SETTLE).await;
    assert_eq!(value(&db, AUDITED).await, "3");
}

async fn a_column_that_is_dropped_leaves_nothing_in_rows_that_are_written(db: Database) {
    settled_once(&db).await;
    run(
        &db,
        "ALTER TABLE outbox.events ADD COLUMN large text; ALTER TABLE outbox.events ALTER large SET STORAGE EXTERNAL",
    )
    .await;
    run(&db, "UPDATE outbox.events SET large = repeat('x', 100000)").await;
    run(&db, "ALTER TABLE outbox.events DROP COLUMN large").await;
    run(&db, SETTLE).await;
    let toast = value(&db, "SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'outbox.events'::regclass").await;
    run(&db, "DELETE FROM outbox.events WHERE seq = 1").await;
    run(&db, "VACUUM outbox.events").await;
    assert_eq!(value(&db, &format!("SELECT count(*) FROM {toast}")).await, "0");
}
