//! Whatever comes between two events of a session (an ALTER that is undone, an error, a lock, another statement that is
//! half done), the next one is written as if nothing had been.

use harness::{Database, SOON, eventually};

use super::{on_both_installations, refusal, run, settle::SETTLE_ALL, value};

on_both_installations!(
    alters_that_are_undone_leave_nothing_behind,
    a_cursor_goes_on_where_it_was_after_others_have_emitted,
    the_table_may_be_made_anew_in_the_transaction,
    a_wait_for_a_lock_can_be_cancelled,
    a_table_of_another_persistence_or_parent_takes_events,
    a_table_with_children_has_its_own_events_settled,
    an_event_trigger_may_emit_while_the_table_is_altered,
    a_function_may_emit_in_the_midst_of_a_parallel_query,
);

const EMIT: &str = "SELECT outbox.emit('t', '1')";
const COUNT: &str = "SELECT count(*) FROM outbox.events";

async fn alters_that_are_undone_leave_nothing_behind(db: Database) {
    run(&db, "BEGIN").await;
    for (alter, broken) in [
        ("ALTER TABLE outbox.events ADD COLUMN extra text DEFAULT 'x'", None),
        ("CREATE UNIQUE INDEX once ON outbox.events (topic)", Some("23505")),
        ("ALTER TABLE outbox.events ADD CONSTRAINT never CHECK (topic <> 't') NOT VALID", Some("23514")),
        ("ALTER TABLE outbox.events ALTER exchange SET NOT NULL", Some("23502")),
        ("ALTER TABLE outbox.events RENAME TO other", Some("42P01")),
        ("ALTER TABLE outbox.events RENAME COLUMN topic TO other", Some("42703")),
        ("ALTER TABLE outbox.events DISABLE TRIGGER admit; DROP INDEX outbox.events_pending", None),
    ] {
        run(&db, "DELETE FROM outbox.events; SAVEPOINT s").await;
        run(&db, alter).await;
        match broken {
            None => run(&db, EMIT).await,
            Some(sqlstate) => {
                let twice = "SELECT outbox.emit('t', '1'), outbox.emit('t', '1')";
                assert_eq!(refusal(&db, twice).await.code().code(), sqlstate, "{alter}");
            }
        }
        run(&db, "ROLLBACK TO s").await;
        run(&db, EMIT).await;
        run(&db, EMIT).await;
        run(&db, SETTLE_ALL).await;
        assert_eq!(value(&db, COUNT).await, "2", "{alter}");
        assert_eq!(value(&db, &format!("{COUNT} WHERE status = 'SENT'")).await, "2", "{alter}");
    }
    run(&db, "COMMIT").await;
}

async fn a_cursor_goes_on_where_it_was_after_others_have_emitted(db: Database) {
    run(
        &db,
        "BEGIN; DECLARE c CURSOR FOR SELECT outbox.emit('c', to_jsonb(n)) FROM generate_series(1, 5) AS n;
         FETCH 2 FROM c; SELECT outbox.emit('t', '1'); ALTER TABLE outbox.events ADD COLUMN extra int DEFAULT 7; FETCH 1 FROM c;
         SAVEPOINT s",
    )
    .await;
    assert_eq!(refusal(&db, "SELECT outbox.emit('', '1')").await.code().code(), "22023");
    run(&db, "ROLLBACK TO s; FETCH 2 FROM c; COMMIT").await;
    assert_eq!(value(&db, "SELECT count(*) || ' ' || sum(extra) FROM outbox.events").await, "6 42");
}

async fn the_table_may_be_made_anew_in_the_transaction(db: Database) {
    run(&db, EMIT).await;
    run(
        &db,
        "BEGIN;
         ALTER TABLE outbox.events RENAME TO before;
         CREATE TABLE outbox.events (LIKE outbox.before INCLUDING ALL);
         SELECT outbox.emit('t', '1');
         DROP TABLE outbox.events;
         CREATE TABLE outbox.events (LIKE outbox.before INCLUDING ALL);
         CREATE TRIGGER admit BEFORE INSERT ON outbox.events FOR EACH ROW EXECUTE FUNCTION outbox.admit();
         SELECT outbox.emit('t', '1');
         TRUNCATE outbox.events;
         SELECT outbox.emit('t', '1'), outbox.emit('t', '2')",
    )
    .await;
    assert_eq!(value(&db, COUNT).await, "2");
    run(&db, "ROLLBACK; SELECT outbox.emit('t', '1')").await;
    assert_eq!(value(&db, COUNT).await, "2");
}

async fn a_wait_for_a_lock_can_be_cancelled(db: Database) {
    run(&db, EMIT).await;
    run(&db, SETTLE_ALL).await;
    run(&db, EMIT).await;
    let (other, third) = (db.connect().await, db.connect().await);
    run(&other, "BEGIN; LOCK TABLE outbox.events IN SHARE MODE").await;
    run(&db, "SET lock_timeout = '50ms'").await;
    for call in [EMIT, SETTLE_ALL] {
        assert_eq!(refusal(&db, call).await.code().code(), "55P03", "{call}");
    }
    run(&db, "SET lock_timeout = 0").await;
    let pid = value(&db, "SELECT pg_backend_pid()").await;
    let cancel = async {
        let waits = format!("SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted");
        eventually("the call waits", SOON, async || match value(&third, &waits).await.as_str() {
            "1" => Ok(()),
            other => Err(other.to_owned()),
        })
        .await;
        run(&third, &format!("SELECT pg_cancel_backend({pid})")).await;
    };
    let (error, ()) = tokio::join!(refusal(&db, EMIT), cancel);
    assert_eq!(error.code().code(), "57014");
    run(&other, "COMMIT").await;
    run(&db, EMIT).await;
    run(&db, SETTLE_ALL).await;
    assert_eq!(value(&db, &format!("{COUNT} WHERE status = 'SENT'")).await, "3");
}

async fn a_table_of_another_persistence_or_parent_takes_events(db: Database) {
    run(&db, "CREATE TABLE parent (LIKE outbox.events)").await;
    for (number, alter) in [
        "SELECT",
        "ALTER TABLE outbox.events SET UNLOGGED",
        "ALTER TABLE outbox.events SET LOGGED",
        "ALTER TABLE outbox.events INHERIT parent",
        "ALTER TABLE outbox.events NO INHERIT parent",
        "CLUSTER outbox.events USING events_pkey",
        "REINDEX TABLE outbox.events",
        "ALTER TABLE outbox.events OWNER TO CURRENT_USER",
        "ALTER TABLE outbox.events FORCE ROW LEVEL SECURITY",
    ]
    .into_iter()
    .enumerate()
    {
        run(&db, alter).await;
        run(&db, EMIT).await;
        run(&db, SETTLE_ALL).await;
        let sent = value(&db, &format!("{COUNT} WHERE status = 'SENT'")).await;
        assert_eq!(sent, (number + 1).to_string(), "{alter}");
    }
}

async fn a_table_with_children_has_its_own_events_settled(db: Database) {
    run(&db, EMIT).await;
    run(&db, SETTLE_ALL).await;
    run(&db, EMIT).await;
    // The same event again, in a child: a statement writes both.
    run(
        &db,
        "CREATE TABLE child () INHERITS (outbox.events);
         INSERT INTO child SELECT * FROM ONLY outbox.events WHERE status = 'PENDING'",
    )
    .await;
    run(&db, SETTLE_ALL).await;
    assert_eq!(value(&db, "SELECT count(*) FROM child WHERE status = 'SENT'").await, "1");
    assert_eq!(value(&db, "SELECT count(*) FROM ONLY outbox.events WHERE status = 'SENT'").await, "2");
}

async fn an_event_trigger_may_emit_while_the_table_is_altered(db: Database) {
    run(&db, EMIT).await;
    run(
        &db,
        "CREATE FUNCTION told() RETURNS event_trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM outbox.emit('ddl', to_jsonb(tg_tag)); END $$;
         CREATE EVENT TRIGGER told ON ddl_command_end EXECUTE FUNCTION told();
         CREATE EVENT TRIGGER told_first ON ddl_command_start EXECUTE FUNCTION told()",
    )
    .await;
    run(&db, "DELETE FROM outbox.events").await;
    run(&db, "ALTER TABLE outbox.events ADD COLUMN extra int DEFAULT 7, ALTER COLUMN event_type SET DEFAULT 'T'").await;
    run(&db, "CREATE INDEX mine ON outbox.events (extra)").await;
    run(&db, "DROP EVENT TRIGGER told; DROP EVENT TRIGGER told_first").await;
    let rows = "SELECT string_agg(payload #>> '{}' || extra, ' ' ORDER BY seq) FROM outbox.events";
    assert_eq!(value(&db, rows).await, "ALTER TABLE7 ALTER TABLE7 CREATE INDEX7 CREATE INDEX7");
    assert_eq!(value(&db, SETTLE_ALL).await, "0");
}

async fn a_function_may_emit_in_the_midst_of_a_parallel_query(db: Database) {
    run(
        &db,
        "CREATE TABLE numbers AS SELECT n FROM generate_series(1, 20000) AS n; ANALYZE numbers;
         SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
         CREATE FUNCTION safe(int) RETURNS uuid PARALLEL SAFE LANGUAGE plpgsql AS
             $$ BEGIN RETURN outbox.emit('t', to_jsonb($1)); END $$",
    )
    .await;
    run(&db, "SELECT outbox.emit('t', to_jsonb(n)) FROM numbers WHERE n % 5000 = 0").await;
    assert_eq!(value(&db, COUNT).await, "4");
    // A function that claims to be safe, and is not.
    let sql = "SELECT count(safe(n)) FROM numbers WHERE n % 5000 = 0";
    let error = refusal(&db, sql).await;
    assert_eq!(error.code().code(), "25000", "{error:?}");
    assert_eq!(value(&db, COUNT).await, "4");
}
