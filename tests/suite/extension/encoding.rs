//! Bytes that are no UTF-8 stay out. They reach a session in its startup packet, where PostgreSQL does not look at
//! them.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use harness::{Database, Postgres};

use super::{on_both_installations, value};

on_both_installations!(
    bytes_that_are_no_utf8_are_refused_by_name,
    settings_that_are_no_utf8_are_refused_by_name,
    text_in_any_script_is_admitted,
);

/// What psql prints of an error, for a session that was started with this option.
async fn psql(db: &Database, option: &[u8], sql: &str) -> String {
    let mut psql = Postgres::shared().await.program("psql");
    psql.args(["--quiet", "--no-psqlrc", "--set=VERBOSITY=verbose", "--dbname", db.name(), "--command", sql]);
    psql.env("PGOPTIONS", OsStr::from_bytes(&[b"-c ", option].concat()));
    String::from_utf8_lossy(&psql.output().unwrap().stderr).into_owned()
}

/// Bytes that are wrong alone, at the end, in the middle, for their length, and as a surrogate.
const WRONG: [&[u8]; 5] = [b"\xff", b"x\xc3", b"\xc3(x", b"\xc0\x80", b"\xed\xa0\x80"];

async fn bytes_that_are_no_utf8_are_refused_by_name(db: Database) {
    let x = "current_setting('my.x')";
    for bytes in WRONG {
        let option = [b"my.x=", bytes].concat();
        for (name, arguments) in [
            ("topic", format!("{x}, '{{}}'::jsonb")),
            ("event_type", format!("'a', '{{}}'::jsonb, event_type => {x}")),
            ("aggregate_type", format!("'a', '{{}}'::jsonb, aggregate_type => {x}")),
            ("aggregate_id", format!("'a', '{{}}'::jsonb, aggregate_id => {x}")),
            ("correlation_id", format!("'a', '{{}}'::jsonb, correlation_id => {x}")),
            ("exchange", format!("'a', '{{}}'::jsonb, exchange => {x}")),
            ("content_type", format!("'a', '\\x00'::bytea, content_type => {x}")),
            ("payload", format!("'a', to_jsonb({x})")),
            ("payload", format!("'a', jsonb_build_object('a', jsonb_build_array(1, {x}))")),
            ("payload", format!("'a', jsonb_build_object({x}, 1)")),
            ("payload", format!("'a', jsonb_build_object('a', repeat('x', 9000), 'b', {x})")),
            ("headers", format!("'a', '{{}}'::jsonb, headers => jsonb_build_object('a', {x})")),
            ("headers", format!("'a', '{{}}'::jsonb, headers => jsonb_build_object('a', jsonb_build_object({x}, 1))")),
        ] {
            let said = psql(&db, &option, &format!("SELECT outbox.emit({arguments})")).await;
            let expected = format!("ERROR:  22021: {name} is not valid UTF-8");
            assert!(said.contains(&expected) && said.contains("HINT:  "), "{bytes:x?} as {arguments}: {said}");
        }
        let insert = format!("INSERT INTO outbox.events (topic, payload) VALUES ({x}, '{{}}')");
        let said = psql(&db, &option, &insert).await;
        assert!(said.contains("ERROR:  22021: topic is not valid UTF-8"), "{said}");
        // A restored row is read by the relay like any other.
        let insert =
            format!("INSERT INTO outbox.events (topic, payload, created_at) VALUES ('a', to_jsonb({x}), '2020-01-01')");
        let said = psql(&db, &option, &insert).await;
        assert!(said.contains("ERROR:  22021: payload is not valid UTF-8"), "{said}");
    }
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "0");
}

async fn settings_that_are_no_utf8_are_refused_by_name(db: Database) {
    for sql in ["SELECT outbox.emit('a', '{}')", "INSERT INTO outbox.events (topic, payload) VALUES ('a', '{}')"] {
        let said = psql(&db, b"outbox.correlation_id=\xff", sql).await;
        assert!(said.contains("ERROR:  22021: correlation_id is not valid UTF-8"), "{said}");
        assert!(said.contains("the setting outbox.correlation_id"), "{said}");
        let said = psql(&db, b"outbox.traceparent=\xff", sql).await;
        assert!(said.contains("ERROR:  22023: the setting outbox.traceparent is not a traceparent"), "{said}");
    }
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "0");
}

async fn text_in_any_script_is_admitted(db: Database) {
    let text = "é ж 漢 😀 \u{7f} \u{10ffff} \u{e000}";
    let sql = "SELECT outbox.emit($1, jsonb_build_object($1::text, $1::text), event_type => $1, aggregate_type => $1,
        aggregate_id => $1, correlation_id => $1, exchange => $1, headers => jsonb_build_object($1::text, $1::text))";
    db.query_one(sql, &[&text]).await.unwrap();
    let same = "SELECT count(*) FROM outbox.events WHERE topic = $1 AND payload ->> $1 = $1 AND headers ->> $1 = $1";
    assert_eq!(db.query_one(same, &[&text]).await.unwrap().get::<_, i64>(0), 1);
}
