//! Writing past the executor can be switched off, by a superuser only, and is of no consequence but for its cost.

use harness::Database;

use super::{refusal, role, run, value, with_the_extension, without_direct_writes};

/// How many of one event `settle_sent()` leaves to the statement.
async fn left(db: &Database) -> String {
    let id = value(db, "SELECT outbox.emit('t', '1')").await;
    value(db, &format!("SELECT cardinality(outbox.settle_sent('{{{id}}}'))")).await
}

#[tokio::test]
async fn a_superuser_switches_it_off_and_on_at_once() {
    let db = with_the_extension().await;
    let tested = "SELECT current_setting('server_version_num')::int / 10000 IN (15, 17, 18)";
    let auto = if value(&db, tested).await == "true" { "0" } else { "1" };
    assert_eq!(left(&db).await, auto);
    for (setting, expected) in [("off", "1"), ("on", "0"), ("auto", auto), ("off", "1")] {
        run(&db, &format!("SET outbox.direct_writes = {setting}")).await;
        assert_eq!(left(&db).await, expected, "{setting}");
    }
    run(&db, "RESET outbox.direct_writes").await;
    assert_eq!(value(&db, "SELECT current_setting('outbox.direct_writes')").await, "auto");
    assert_eq!(refusal(&db, "SET outbox.direct_writes = maybe").await.code().code(), "22023");
}

#[tokio::test]
async fn nobody_else_switches_it() {
    let db = with_the_extension().await;
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let session = db.connect_as(&app).await;
    // Before the library is loaded nobody knows the setting; what was said then counts for nothing.
    run(&session, "SET outbox.direct_writes = off; SELECT outbox.emit('t', '1')").await;
    assert_eq!(value(&session, "SELECT current_setting('outbox.direct_writes')").await, "auto");
    assert_eq!(refusal(&session, "SET outbox.direct_writes = off").await.code().code(), "42501");
}

#[tokio::test]
async fn a_database_may_have_it_off_for_all() {
    let db = without_direct_writes().await;
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let session = db.connect_as(&app).await;
    run(&session, "SELECT outbox.emit('t', '1')").await;
    assert_eq!(value(&session, "SELECT current_setting('outbox.direct_writes')").await, "off");
    assert_eq!(left(&db).await, "1");
}

/// How many indexes of the table this session has not locked as one that writes into them.
const UNLOCKED: &str = "SELECT count(*) FROM pg_index
    WHERE indrelid = 'outbox.events'::regclass AND NOT EXISTS (
        SELECT FROM pg_locks
        WHERE relation = indexrelid AND pid = pg_backend_pid() AND mode = 'RowExclusiveLock' AND granted)";
const EMITS: &str = "DO 'BEGIN FOR i IN 1..3 LOOP PERFORM outbox.emit(''t'', ''1''); END LOOP; END'";

#[tokio::test]
async fn every_index_stays_locked_until_the_end_of_a_transaction_that_has_emitted() {
    let db = with_the_extension().await;
    run(&db, "SET outbox.direct_writes = on; BEGIN; SAVEPOINT s").await;
    for step in ["SELECT", "ROLLBACK TO s", "SAVEPOINT t", "RELEASE t", "SAVEPOINT t", "ROLLBACK TO s", "RELEASE s"] {
        run(&db, step).await;
        run(&db, EMITS).await;
        assert_eq!(value(&db, UNLOCKED).await, "0", "after {step}");
    }
    run(&db, "COMMIT AND CHAIN; SELECT outbox.emit('t', '1')").await;
    assert_eq!(value(&db, UNLOCKED).await, "0");
    run(&db, "COMMIT").await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "7");
}

#[tokio::test]
async fn an_index_whose_lock_went_with_a_cursor_that_failed_is_locked_again() {
    let db = with_the_extension().await;
    let emits = "SELECT CASE WHEN i < 3 THEN outbox.emit('c', '1')::text ELSE (1 / (i - 3))::text END
                 FROM generate_series(1, 3) AS i";
    run(&db, "SET outbox.direct_writes = on").await;
    run(&db, EMITS).await;
    run(&db, &format!("BEGIN; DECLARE c CURSOR FOR {emits}; FETCH 2 c; SAVEPOINT s")).await;
    assert_eq!(refusal(&db, "FETCH c").await.code().code(), "22012");
    run(&db, &format!("ROLLBACK TO s; RELEASE s; {EMITS}")).await;
    assert_eq!(value(&db, UNLOCKED).await, "0");
    let in_a_block = format!(
        "DO $$ DECLARE c refcursor; row record; BEGIN
             OPEN c FOR {emits};
             FETCH c INTO row;
             FETCH c INTO row;
             BEGIN FETCH c INTO row; EXCEPTION WHEN division_by_zero THEN NULL; END;
             PERFORM outbox.emit('t', '1');
             PERFORM outbox.emit('t', '1');
         END $$"
    );
    run(&db, &format!("COMMIT AND CHAIN; {in_a_block}")).await;
    assert_eq!(value(&db, UNLOCKED).await, "0");
    run(&db, "COMMIT").await;
}

#[tokio::test]
async fn the_check_at_the_end_of_each_test_finds_a_row_that_an_index_has_not() {
    let db = harness::Postgres::shared().await.database().await;
    run(
        &db,
        "SET outbox.allow_undumped_changes = on;
         CREATE FUNCTION sign() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
         CREATE FUNCTION key(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 * public.sign(); END';
         SELECT outbox.emit('t', '1'), outbox.emit('t', '2');
         CREATE INDEX mine ON outbox.events (key(seq))",
    )
    .await;
    assert_eq!(db.check().await, Ok(()));
    let session = db.connect().await;
    run(&session, "CREATE OR REPLACE FUNCTION sign() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT -1'").await;
    let found = db.check().await.unwrap_err();
    assert!(found.contains("mine"), "{found}");
}
