//! Rows that cannot be read as a whole: too large, or damaged on disk. None can come in by
//! `emit` or a plain INSERT.

use harness::{Connection, Postgres, RabbitMq, Stack};

use super::{assert_memory_was_bounded, count, ledger, wait_until_none_is_pending};

/// Headers and payload of half a gigabyte each, from some MB: more than PostgreSQL sends in one row.
const TOO_LARGE: &str = "payload, headers) SELECT to_json(repeat('x', 536870000)), to_json(repeat('x', 536870000))";

/// A payload of 262 MB, which PostgreSQL could send.
const LARGE: &str = "payload) SELECT to_json(repeat('x', 262000000))";

/// A payload out of line.
const DAMAGED: &str = "payload) SELECT json_agg(md5(i::text)) FROM generate_series(1, 1000) AS i";

/// For each kind: its key has a good event before it and one behind it, and others are all around.
async fn insert(db: &Connection, kind: &str, columns: &str) {
    let good =
        |n: i32| format!("SELECT outbox.emit('t', to_jsonb({n}), aggregate_type => 'kind', aggregate_id => '{kind}');");
    let others = "SELECT outbox.emit('t', to_jsonb(i), aggregate_type => 'other', aggregate_id => (i % 7)::text)
                  FROM generate_series(1, 50) AS i;";
    let (before, behind) = (good(1), good(3));
    let sql = format!(
        "{others}{before}
         ALTER TABLE outbox.events DISABLE TRIGGER USER;
         INSERT INTO outbox.events (topic, event_type, aggregate_type, aggregate_id, {};
         ALTER TABLE outbox.events ENABLE TRIGGER USER;
         {behind}{others}",
        columns.replacen(") SELECT ", &format!(") SELECT 't', '{kind}', 'kind', '{kind}', "), 1)
    );
    db.batch_execute(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// Takes the values away that are stored out of line.
async fn damage(db: &Connection) {
    let sql = "CREATE EXTENSION pg_surgery;
               DO $$
               DECLARE
                   toast regclass := (SELECT reltoastrelid FROM pg_class WHERE oid = 'outbox.events'::regclass);
                   places tid[];
               BEGIN
                   EXECUTE 'SELECT array_agg(ctid) FROM ' || toast INTO places;
                   PERFORM heap_force_kill(toast, places);
               END $$";
    db.batch_execute(sql).await.unwrap();
}

#[tokio::test]
async fn a_row_that_cannot_be_read_fails_alone_when_it_is_found_in_the_table() {
    it_fails_alone(Stack::new().await).await;
}

/// Which has no way to learn a value's size but to read it.
#[tokio::test]
async fn a_row_that_cannot_be_read_fails_alone_with_the_plain_sql_too() {
    let (postgres, rabbitmq) = tokio::join!(Postgres::shared(), RabbitMq::shared());
    let (db, vhost) = (postgres.empty_database().await, rabbitmq.vhost().await);
    let installed = postgres.install_plain_sql(db.name());
    assert!(installed.status.success(), "{installed:?}");
    it_fails_alone(Stack { db, vhost }).await;
}

async fn it_fails_alone(stack: Stack) {
    let consumer = stack.consumer("#").await;
    insert(&stack.db, "damaged", DAMAGED).await;
    damage(&stack.db).await;
    insert(&stack.db, "too-large", TOO_LARGE).await;
    insert(&stack.db, "large", LARGE).await;
    let relay = stack.relay().start().await;
    wait_until_none_is_pending(&stack.db, "true").await;
    for (kind, reason) in [("too-large", "%cannot be read: %"), ("damaged", "%cannot be read: missing chunk number 0%")]
    {
        let failed =
            format!("event_type = '{kind}' AND status = 'FAILED' AND attempts = 1 AND last_error LIKE '{reason}'");
        assert_eq!(count(&stack.db, &failed).await, 1, "{kind}");
    }
    assert_eq!(count(&stack.db, "event_type IS NULL AND status = 'SENT' AND attempts = 1").await, 306);
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
    ledger::check(&stack.db, &[&consumer.ids()], 0).await;
    assert_memory_was_bounded(&relay);
}

/// Until the slot is made, the table is read again and again, also while the verdict of such a row is on its way. At
/// most `may_end` sessions end.
async fn it_fails_alone_before_the_slot_is_made(columns: &str, may_end: usize) {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let good = "SELECT outbox.emit('t', to_jsonb(i), aggregate_type => 'other', aggregate_id => (i % 7)::text)
                FROM generate_series(1, 50) AS i";
    stack
        .db
        .batch_execute(&format!(
            "{good}; ALTER TABLE outbox.events DISABLE TRIGGER USER; INSERT INTO outbox.events (event_type, {columns};
             ALTER TABLE outbox.events ENABLE TRIGGER USER; {good}"
        ))
        .await
        .unwrap();
    let writer = stack.db.connect().await;
    writer.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    let relay = stack.relay().spawn();
    wait_until_none_is_pending(&stack.db, "true").await;
    let failed = "event_type = 'bad' AND status = 'FAILED' AND last_error LIKE '%cannot be read: %'";
    assert_eq!(count(&stack.db, failed).await, 1);
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
    ledger::check(&stack.db, &[&consumer.ids()], 0).await;
    let ended = relay.log_lines().iter().filter(|line| line.contains("the session ended")).count();
    assert!(ended <= may_end, "{ended} sessions ended");
    writer.batch_execute("COMMIT").await.unwrap();
    relay.wait_for_log("streaming").await;
}

#[tokio::test]
async fn a_row_with_headers_that_are_too_large_fails_alone_before_the_slot_is_made() {
    let columns = "topic, payload, headers) SELECT 'bad', 't', '1', to_json(repeat('x', 200000000))";
    it_fails_alone_before_the_slot_is_made(columns, 0).await;
}

/// Nothing but the relay bounds a text, of which one that large comes in past all checks only. Its size ends one
/// session.
#[tokio::test]
async fn a_row_with_a_text_that_is_too_large_fails_alone_before_the_slot_is_made() {
    let columns = "topic, payload) SELECT 'bad', repeat('x', 200000000), '1'";
    it_fails_alone_before_the_slot_is_made(columns, 1).await;
}
