//! What a DBA adds to `outbox.events` counts for `emit()` from the next call on, in sessions that have emitted before,
//! too.

use harness::Database;

use super::{AUDIT, on_both_installations, refusal, role, run, value};

on_both_installations!(
    a_trigger_of_the_users_runs_with_the_owners_rights,
    a_trigger_of_the_users_does_not_look_where_the_caller_does,
    a_constraint_that_is_added_is_enforced,
    a_column_that_is_added_gets_its_default,
    an_index_that_is_added_finds_new_events,
    a_unique_index_that_is_added_is_enforced,
    an_index_may_need_a_function_that_the_caller_may_not_call,
    what_an_index_runs_runs_as_the_owner,
    a_policy_does_not_stop_emit,
    a_table_in_the_place_of_another_is_the_one_that_is_written,
    the_table_can_be_altered_after_emit_in_the_same_transaction,
    what_another_session_changes_counts_from_the_next_call_on_in_an_open_transaction,
    a_refused_event_does_not_spoil_the_next,
    a_read_only_transaction_cannot_emit,
    what_follows_in_the_same_statement_sees_the_event,
    a_large_payload_of_another_table_arrives_whole,
);

const EMIT: &str = "SELECT outbox.emit('a', '{\"n\": 1}')";

/// A session of a role that may emit and nothing else, which has emitted once.
async fn emitter(db: &Database) -> harness::Connection {
    let app = role(db, "app").await;
    run(db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let session = db.connect_as(&app).await;
    run(&session, EMIT).await;
    session
}

async fn a_trigger_of_the_users_runs_with_the_owners_rights(db: Database) {
    let session = emitter(&db).await;
    run(&db, AUDIT).await;
    run(&session, EMIT).await;
    assert_eq!(value(&db, "SELECT count(*) FROM audit").await, "1");
    run(&db, "DROP TRIGGER audit ON outbox.events").await;
    run(&session, EMIT).await;
    assert_eq!(value(&db, "SELECT count(*) FROM audit").await, "1");
    assert_eq!(value(&session, "SELECT current_user = session_user").await, "true");
}

async fn a_trigger_of_the_users_does_not_look_where_the_caller_does(db: Database) {
    let session = emitter(&db).await;
    run(
        &db,
        "CREATE FUNCTION path() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN new.event_type := current_setting(''search_path''); RETURN new; END';
         CREATE TRIGGER a_path BEFORE INSERT ON outbox.events FOR EACH ROW EXECUTE FUNCTION path()",
    )
    .await;
    run(&session, "SET search_path = pg_temp, public").await;
    run(&session, EMIT).await;
    assert_eq!(value(&db, "SELECT max(event_type) FROM outbox.events").await, "pg_catalog, pg_temp");
    assert_eq!(value(&session, "SELECT current_setting('search_path')").await, "pg_temp, public");
}

async fn a_constraint_that_is_added_is_enforced(db: Database) {
    let session = emitter(&db).await;
    run(&db, "ALTER TABLE outbox.events ADD CONSTRAINT short CHECK (length(topic) < 5)").await;
    assert_eq!(refusal(&session, "SELECT outbox.emit('too long', '{}')").await.code().code(), "23514");
    run(&session, EMIT).await;
}

async fn a_column_that_is_added_gets_its_default(db: Database) {
    let session = emitter(&db).await;
    run(
        &db,
        "ALTER TABLE outbox.events ADD COLUMN region text DEFAULT 'eu', ADD COLUMN at timestamptz DEFAULT clock_timestamp(),
         ADD COLUMN nothing int, ADD COLUMN number serial",
    )
    .await;
    run(&session, EMIT).await;
    let row = "SELECT concat_ws(' ', region, at IS NOT NULL, nothing IS NULL, number)
               FROM outbox.events ORDER BY seq DESC LIMIT 1";
    assert_eq!(value(&db, row).await, "eu t t 2");
    run(&db, "ALTER TABLE outbox.events DROP COLUMN at, ALTER COLUMN region SET DEFAULT 'us'").await;
    run(&session, EMIT).await;
    assert_eq!(value(&db, "SELECT max(region) FROM outbox.events").await, "us");
    run(&db, "ALTER TABLE outbox.events ADD COLUMN upper text GENERATED ALWAYS AS (upper(topic)) STORED").await;
    run(&session, EMIT).await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events WHERE upper = 'A'").await, "4");
}

async fn an_index_that_is_added_finds_new_events(db: Database) {
    let session = emitter(&db).await;
    for index in [
        "CREATE INDEX i ON outbox.events (topic)",
        "CREATE INDEX CONCURRENTLY i ON outbox.events (topic) WHERE event_type IS NULL",
        "CREATE INDEX i ON outbox.events (upper(topic))",
        "CREATE INDEX i ON outbox.events USING gin ((payload::jsonb))",
        "CREATE INDEX i ON outbox.events USING brin (created_at)",
        "CREATE INDEX i ON outbox.events USING hash (topic)",
    ] {
        run(&db, index).await;
        run(
            &session,
            "SELECT outbox.emit('found', '{\"found\": true}'); SELECT outbox.emit('found', '{\"found\": true}')",
        )
        .await;
        run(&db, "SET enable_seqscan = off").await;
        let condition = match index {
            index if index.contains("gin") => "payload::jsonb @> '{\"found\": true}'",
            index if index.contains("upper") => "upper(topic) = 'FOUND'",
            index if index.contains("brin") => "created_at > '2000-01-01'",
            _ => "topic = 'found' AND event_type IS NULL",
        };
        let count = format!("SELECT count(*) FROM outbox.events WHERE topic = 'found' AND {condition}");
        let all: i64 =
            value(&db, "SELECT count(*) FROM outbox.events WHERE topic || '' = 'found'").await.parse().unwrap();
        assert_eq!(value(&db, &count).await, all.to_string(), "{index}");
        run(&db, "DROP INDEX outbox.i").await;
    }
}

async fn a_unique_index_that_is_added_is_enforced(db: Database) {
    let session = emitter(&db).await;
    run(&db, "CREATE UNIQUE INDEX once ON outbox.events (correlation_id)").await;
    let emit = "SELECT outbox.emit('a', '{}', correlation_id => 'c')";
    run(&session, emit).await;
    assert_eq!(refusal(&session, emit).await.code().code(), "23505");
    run(&session, EMIT).await;
}

async fn an_index_may_need_a_function_that_the_caller_may_not_call(db: Database) {
    let session = emitter(&db).await;
    run(
        &db,
        "CREATE FUNCTION vip(text) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 = ''a''; END';
         REVOKE EXECUTE ON FUNCTION vip(text) FROM PUBLIC;
         CREATE UNIQUE INDEX ON outbox.events (correlation_id) WHERE public.vip(topic)",
    )
    .await;
    let emit = "SELECT outbox.emit('a', '{}', correlation_id => 'c')";
    run(&session, emit).await;
    assert_eq!(refusal(&session, emit).await.code().code(), "23505");
}

async fn what_an_index_runs_runs_as_the_owner(db: Database) {
    let session = emitter(&db).await;
    run(
        &db,
        "CREATE FUNCTION is_owner() RETURNS bool STABLE LANGUAGE plpgsql AS $$
             BEGIN IF current_user <> 'postgres' THEN RAISE 'run as %', current_user; END IF; RETURN true; END $$;
         CREATE FUNCTION f(text) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN public.is_owner(); END';
         CREATE TYPE pair AS (a int);
         CREATE FUNCTION compare(pair, pair) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN public.is_owner()::int - 1; END';
         CREATE FUNCTION less(pair, pair) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN NOT public.is_owner(); END';
         CREATE FUNCTION same(pair, pair) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN public.is_owner(); END';
         CREATE OPERATOR <<< (FUNCTION = less, LEFTARG = pair, RIGHTARG = pair);
         CREATE OPERATOR === (FUNCTION = same, LEFTARG = pair, RIGHTARG = pair);
         CREATE OPERATOR CLASS pairs DEFAULT FOR TYPE pair USING btree AS
             OPERATOR 1 <<< (pair, pair), OPERATOR 3 === (pair, pair), FUNCTION 1 compare(pair, pair)",
    )
    .await;
    for (mine, away) in [
        // By the name of one of ours.
        (
            "DROP INDEX outbox.events_failed; CREATE INDEX events_failed ON outbox.events (seq) WHERE public.f(topic)",
            "DROP INDEX outbox.events_failed",
        ),
        (
            "CREATE INDEX i ON outbox.events (seq) WHERE topic = 'a' AND NOT (seq > 0 AND public.f(topic))",
            "DROP INDEX outbox.i",
        ),
        (
            "ALTER TABLE outbox.events ADD COLUMN p pair DEFAULT ROW(1); CREATE INDEX i ON outbox.events (p)",
            "ALTER TABLE outbox.events DROP COLUMN p",
        ),
        // An array is compared by PostgreSQL's own function, which calls that of the elements' type.
        (
            "ALTER TABLE outbox.events ADD COLUMN p pair[] DEFAULT ARRAY[ROW(1)::pair]; CREATE INDEX i ON outbox.events (p)",
            "ALTER TABLE outbox.events DROP COLUMN p",
        ),
    ] {
        run(&db, mine).await;
        for _ in 0..2 {
            run(&session, EMIT).await;
        }
        run(&db, away).await;
    }
}

async fn a_table_in_the_place_of_another_is_the_one_that_is_written(db: Database) {
    let session = emitter(&db).await;
    run(
        &db,
        "BEGIN;
         ALTER TABLE outbox.events RENAME TO old_events;
         CREATE TABLE outbox.events (LIKE outbox.old_events INCLUDING ALL);
         CREATE TRIGGER admit BEFORE INSERT ON outbox.events FOR EACH ROW EXECUTE FUNCTION outbox.admit();
         COMMIT",
    )
    .await;
    run(&session, EMIT).await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "1");
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.old_events").await, "1");
}

#[tokio::test]
async fn settings_put_on_the_triggers_function_hold_in_sessions_that_have_emitted() {
    let db = super::with_the_extension().await;
    let session = emitter(&db).await;
    run(&db, "ALTER FUNCTION outbox.admit() SET search_path = pg_catalog").await;
    for _ in 0..3 {
        run(&session, EMIT).await;
    }
    assert_eq!(refusal(&session, "SELECT outbox.emit('', '{}')").await.code().code(), "22023");
    run(&db, "ALTER FUNCTION outbox.admit() RESET search_path").await;
    run(&session, EMIT).await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "5");
}

async fn a_policy_does_not_stop_emit(db: Database) {
    let session = emitter(&db).await;
    run(&db, "ALTER TABLE outbox.events ENABLE ROW LEVEL SECURITY").await;
    run(&session, EMIT).await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "2");
}

async fn the_table_can_be_altered_after_emit_in_the_same_transaction(db: Database) {
    run(
        &db,
        "BEGIN;
         SELECT outbox.emit('a', '{}');
         ALTER TABLE outbox.events ADD COLUMN extra int DEFAULT 7;
         SELECT outbox.emit('b', '{}');
         CREATE INDEX extra ON outbox.events (extra);
         SELECT outbox.emit('c', '{}');
         COMMIT;
         SELECT outbox.emit('d', '{}')",
    )
    .await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events WHERE extra = 7").await, "4");
    run(&db, "BEGIN; ALTER TABLE outbox.events ADD COLUMN undone int; SELECT outbox.emit('e', '{}'); ROLLBACK").await;
    run(&db, EMIT).await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "5");
}

async fn what_another_session_changes_counts_from_the_next_call_on_in_an_open_transaction(db: Database) {
    let session = emitter(&db).await;
    run(&session, &format!("BEGIN; {EMIT}; {EMIT}; {EMIT}")).await;
    run(
        &db,
        "CREATE OR REPLACE FUNCTION outbox.admit() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN new.topic := ''new''; RETURN new; END'",
    )
    .await;
    run(&session, &format!("{EMIT}; COMMIT")).await;
    assert_eq!(value(&db, "SELECT string_agg(topic, ' ' ORDER BY seq) FROM outbox.events").await, "a a a a new");
}

async fn a_refused_event_does_not_spoil_the_next(db: Database) {
    let session = emitter(&db).await;
    run(&session, "BEGIN; SAVEPOINT s").await;
    assert_eq!(refusal(&session, "SELECT outbox.emit('', '{}')").await.code().code(), "22023");
    run(&session, "ROLLBACK TO s").await;
    run(&session, EMIT).await;
    run(&session, "COMMIT").await;
    run(
        &session,
        "DO $$ BEGIN
             PERFORM outbox.emit('b', '{}');
             BEGIN PERFORM outbox.emit(repeat('x', 300), '{}'); EXCEPTION WHEN OTHERS THEN NULL; END;
             PERFORM outbox.emit('b', '{}');
         END $$",
    )
    .await;
    assert_eq!(value(&db, "SELECT string_agg(topic, '' ORDER BY seq) FROM outbox.events").await, "aabb");
}

async fn a_read_only_transaction_cannot_emit(db: Database) {
    let session = emitter(&db).await;
    assert_eq!(refusal(&session, &format!("BEGIN READ ONLY; {EMIT}")).await.code().code(), "25006");
    run(&session, "ROLLBACK").await;
    run(&session, EMIT).await;
}

async fn what_follows_in_the_same_statement_sees_the_event(db: Database) {
    run(
        &db,
        "CREATE FUNCTION emitted(uuid) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
             'BEGIN RETURN (SELECT count(*) FROM outbox.events WHERE id = $1); END'",
    )
    .await;
    assert_eq!(value(&db, "SELECT sum(emitted(outbox.emit('a', '{}'))) FROM generate_series(1, 3)").await, "3");
}

async fn a_large_payload_of_another_table_arrives_whole(db: Database) {
    run(
        &db,
        "CREATE TABLE document (body jsonb, bytes bytea);
         INSERT INTO document SELECT jsonb_agg(md5(i::text)), string_agg(md5(i::text)::bytea, '')
             FROM generate_series(1, 10000) AS i;
         SELECT outbox.emit('a', body) FROM document;
         SELECT outbox.emit('b', bytes) FROM document;
         DROP TABLE document",
    )
    .await;
    let sizes = "SELECT concat_ws(' ', max(json_array_length(payload)), max(length(payload_bytes))) FROM outbox.events";
    assert_eq!(value(&db, sizes).await, "10000 320000");
}
