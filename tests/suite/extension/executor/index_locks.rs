//! A transaction that has emitted past the executor keeps the locks of the indexes to its end.

use super::with_direct_writes;
use crate::extension::{refusal, run, value};

/// How many indexes of the table this session has not locked as one that writes into them.
pub(super) const UNLOCKED: &str = "SELECT count(*) FROM pg_index
    WHERE indrelid = 'outbox.events'::regclass AND NOT EXISTS (
        SELECT FROM pg_locks
        WHERE relation = indexrelid AND pid = pg_backend_pid() AND mode = 'RowExclusiveLock' AND granted)";
const EMITS: &str = "DO 'BEGIN FOR i IN 1..3 LOOP PERFORM outbox.emit(''t'', ''1''); END LOOP; END'";

#[tokio::test]
async fn every_index_stays_locked_until_the_end_of_a_transaction_that_has_emitted() {
    let Some(db) = with_direct_writes().await else { return };
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
    let Some(db) = with_direct_writes().await else { return };
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
