//! The trigger's function on other tables than `outbox.events`, a partition first of all; and no table at all.

use harness::Database;

use super::{on_both_installations, refusal, role, run, value};

on_both_installations!(
    a_refusal_on_a_partition_says_what_is_wrong,
    a_missing_table_is_said_to_be_missing,
    a_table_of_a_stranger_runs_nothing_of_the_strangers_even_where_everybody_may_execute_the_function,
);

async fn a_refusal_on_a_partition_says_what_is_wrong(db: Database) {
    // The columns of a partition may stand in another order than those of its parent.
    run(
        &db,
        "CREATE TABLE parent (LIKE outbox.events INCLUDING DEFAULTS) PARTITION BY RANGE (seq);
         CREATE TRIGGER admit BEFORE INSERT ON parent FOR EACH ROW EXECUTE FUNCTION outbox.admit();
         CREATE TABLE part (LIKE outbox.events INCLUDING DEFAULTS);
         ALTER TABLE part DROP COLUMN payload, ADD COLUMN payload json;
         ALTER TABLE parent ATTACH PARTITION part FOR VALUES FROM (1) TO (100)",
    )
    .await;
    for table in ["parent", "part"] {
        let insert =
            |topic: &str| format!("INSERT INTO {table} (seq, topic, payload) VALUES (1, {topic}, '{{\"a\": 1}}')");
        run(&db, &insert("'a'")).await;
        let error = refusal(&db, &insert("''")).await;
        assert_eq!((error.code().code(), error.message()), ("22023", "topic must not be empty"));
        let error = refusal(&db, &insert("NULL")).await;
        assert_eq!((error.code().code(), error.message()), ("22004", "topic must not be null"));
    }
}

async fn a_missing_table_is_said_to_be_missing(db: Database) {
    // In a session that has emitted, and in one that has not.
    let session = db.connect().await;
    run(&session, "SELECT outbox.emit('a', '{}')").await;
    run(&db, "ALTER TABLE outbox.events RENAME TO elsewhere").await;
    for session in [&session, &db.connect().await] {
        let error = refusal(session, "SELECT outbox.emit('a', '{}')").await;
        assert_eq!((error.code().code(), error.message()), ("42P01", "relation \"outbox.events\" does not exist"));
    }
    run(&db, "ALTER TABLE outbox.elsewhere RENAME TO events").await;
    run(&session, "SELECT outbox.emit('a', '{}')").await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "2");
}

async fn a_table_of_a_stranger_runs_nothing_of_the_strangers_even_where_everybody_may_execute_the_function(
    db: Database,
) {
    let stranger = role(&db, "stranger").await;
    run(
        &db,
        "SELECT outbox.emit('a', '{}'); GRANT USAGE ON SCHEMA outbox TO PUBLIC;
         GRANT EXECUTE ON ALL ROUTINES IN SCHEMA outbox TO PUBLIC",
    )
    .await;
    let session = db.connect_as(&stranger).await;
    // Of the stranger's type, whose cast to text is the stranger's function.
    run(
        &session,
        "CREATE TYPE pg_temp.t AS ENUM ('x');
         CREATE FUNCTION pg_temp.f(pg_temp.t) RETURNS text LANGUAGE plpgsql AS
             $$BEGIN DELETE FROM outbox.events; RETURN 'a'; END$$;
         CREATE CAST (pg_temp.t AS text) WITH FUNCTION pg_temp.f(pg_temp.t) AS IMPLICIT;
         CREATE TEMP TABLE mine (topic pg_temp.t, payload json, payload_bytes bytea, event_type text, aggregate_type text,
             aggregate_id text, correlation_id text, exchange text, content_type text, headers json, available_at timestamptz,
             created_at timestamptz);
         CREATE TRIGGER admit BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION outbox.admit()",
    )
    .await;
    let error = refusal(&session, "INSERT INTO mine (topic, payload) VALUES ('x', '1')").await;
    assert!(["42501", "42703", "42804"].contains(&error.code().code()), "{error:?}");
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "1");
}
