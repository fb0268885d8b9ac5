//! What a session has set does not change what the functions do.

use harness::{Connection, Database, Postgres, places::checkout};

use super::{limits::refused, on_both_installations, role, run, value};

on_both_installations!(a_sessions_settings_change_nothing);

const SETTINGS: [&str; 17] = [
    "standard_conforming_strings = off",
    "backslash_quote = on",
    "search_path = pg_temp",
    "bytea_output = escape",
    "extra_float_digits = -15",
    "IntervalStyle = iso_8601",
    "DateStyle = 'SQL, DMY'",
    "TimeZone = 'Asia/Kathmandu'",
    "xmloption = document",
    "transform_null_equals = on",
    "plan_cache_mode = force_generic_plan",
    "plan_cache_mode = force_custom_plan",
    "row_security = off",
    "client_encoding = LATIN1",
    "default_transaction_isolation = serializable",
    "plpgsql.variable_conflict = use_variable",
    "quote_all_identifiers = on",
];

async fn a_sessions_settings_change_nothing(db: Database) {
    let app = role(&db, "app").await;
    for setting in SETTINGS {
        let session = db.connect().await;
        run(&session, &format!("SET escape_string_warning = off; SET {setting}")).await;
        works(&db, &session).await;
        let tuned = "ALTER TABLE outbox.events SET (autovacuum_vacuum_threshold = 10000)";
        run(&session, &format!("SELECT outbox.grant_emit('{app}'); {tuned}")).await;
        run(&*db.connect_as(&app).await, "SELECT outbox.emit('t', '{}'); SELECT outbox.version()").await;
        run(&db, "DELETE FROM outbox.events").await;
    }
}

#[tokio::test]
async fn plain_sql_installs_where_backslashes_in_strings_are_escapes() {
    let postgres = Postgres::shared().await;
    let db = postgres.empty_database().await;
    run(&db, &format!("ALTER DATABASE {} SET standard_conforming_strings = off", db.name())).await;
    let mut psql = postgres.program("psql");
    psql.args(["--quiet", "--no-psqlrc", "--dbname", db.name(), "--file"]).arg(checkout().join("sql/outbox.sql"));
    let output = psql.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    works(&db, &db.connect().await).await;
}

/// Events are made, checked and refused as ever.
async fn works(db: &Database, session: &Connection) {
    run(
        session,
        r#"SET outbox.max_payload_bytes = '20 kB'; SET outbox.correlation_id = 'c';
           SET outbox.traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
           SELECT outbox.emit('t', '{"n": [1.50, "x"]}', headers => '{"h": {"a": [1, null]}}', available_at => '2999-01-01Z');
           SELECT outbox.emit('t', to_jsonb(repeat('x', 19000)));
           SELECT outbox.emit('t', 'x'::bytea)"#,
    )
    .await;
    let rows = "SELECT count(*) FROM outbox.events WHERE topic = 't' AND correlation_id = 'c' AND headers ->> 'traceparent' IS NOT NULL";
    assert_eq!(value(db, rows).await, "3");
    run(db, "DELETE FROM outbox.events").await;
    for sql in ["SELECT outbox.emit('', '{}')", "INSERT INTO outbox.events (topic, payload) VALUES ('', '{}')"] {
        let error = super::refusal(session, sql).await;
        assert_eq!((error.code().code(), error.message()), ("22023", "topic must not be empty"));
    }
    let error = super::refusal(session, "SELECT outbox.emit('t', to_jsonb(repeat('x', 20479)))").await;
    assert_eq!((error.code().code(), error.message()), ("54000", "payload is 20481 bytes, the limit is 20480"));
    refused(
        db,
        "SELECT outbox.emit('t', '{}', headers => '{\"\": 1}')",
        "22023",
        "headers must not have an empty name",
    )
    .await;
}
