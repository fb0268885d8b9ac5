//! Bad input is refused at the call, with a fitting SQLSTATE, the argument's name and a hint, by `emit` and INSERT
//! alike.

use harness::Database;

use super::{on_both_installations, refusal, run, value};

on_both_installations!(
    bad_input_is_refused_by_name,
    bad_input_is_refused_in_an_insert_too,
    what_just_fits_is_admitted,
    a_long_name_is_quoted_by_its_beginning,
    nul_cannot_get_in,
);

const LONG: &str = "repeat('ü', 128)"; // 256 bytes, 128 characters

/// Column, SQL of its value, SQLSTATE, message.
fn bad_values() -> Vec<(&'static str, String, &'static str, String)> {
    let mut bad = vec![
        ("topic", "NULL".to_owned(), "22004", "topic must not be null".to_owned()),
        ("payload", "NULL::jsonb".into(), "22004", "payload must not be null".into()),
        (
            "payload",
            "to_jsonb(repeat('x', 1048576))".into(),
            "54000",
            "payload is 1048578 bytes, the limit is 1048576".into(),
        ),
        ("headers", "'[]'".into(), "22023", "headers must be a JSON object".into()),
        ("headers", "'1'".into(), "22023", "headers must be a JSON object".into()),
        ("headers", r#"'{"": 1}'"#.into(), "22023", "headers must not have an empty name".into()),
        ("headers", r#"'{"a": [], "CC": "t"}'"#.into(), "22023", "the header CC must be an array".into()),
        (
            "headers",
            r#"'{"BCC": null, "CC": [{}], "a": {}}'"#.into(),
            "22023",
            "the header BCC must be an array".into(),
        ),
        ("headers", r#"'{"a": [{"b": {"": null}}]}'"#.into(), "22023", "headers must not have an empty name".into()),
        (
            "headers",
            format!("jsonb_build_object({LONG}, 1)"),
            "22001",
            "headers has a name of 256 bytes, the limit is 255".into(),
        ),
        (
            "headers",
            format!("jsonb_build_object('a', jsonb_build_array(jsonb_build_object({LONG}, 1)))"),
            "22001",
            "headers has a name of 256 bytes, the limit is 255".into(),
        ),
        (
            "headers",
            "jsonb_build_object('a', repeat('x', 65536))".into(),
            "54000",
            "headers are 65545 bytes, the limit is 65536".into(),
        ),
        // Numbers take more room in AMQP than in JSON.
        (
            "headers",
            "jsonb_build_object('a', (SELECT jsonb_agg(1) FROM generate_series(1, 8000)))".into(),
            "54000",
            "headers are 72011 bytes, the limit is 65536".into(),
        ),
        (
            "headers",
            "('{\"a\": ' || repeat('[', 64) || repeat(']', 64) || '}')::jsonb".into(),
            "54000",
            "headers are nested deeper than 64 levels".into(),
        ),
        ("available_at", "'infinity'".into(), "22023", "available_at must not be infinity".into()),
    ];
    for column in ["topic", "event_type", "aggregate_type", "aggregate_id", "correlation_id", "exchange"] {
        bad.push((column, "''".into(), "22023", format!("{column} must not be empty")));
        bad.push((column, LONG.into(), "22001", format!("{column} is 256 bytes long, the limit is 255")));
    }
    bad
}

/// `topic` and `payload` are given to every call; the bad value is added, or takes the place of one of them.
fn arguments(column: &str, bad: &str) -> Vec<(String, String)> {
    let mut all = vec![("topic".to_owned(), "'a'".to_owned()), ("payload".to_owned(), "'{}'::jsonb".to_owned())];
    all.retain(|(name, _)| name != column);
    all.push((column.to_owned(), bad.to_owned()));
    all
}

/// Runs SQL that must be refused so, and leave no event behind.
pub(super) async fn refused(db: &Database, sql: &str, sqlstate: &str, message: &str) {
    let error = refusal(db, sql).await;
    assert_eq!((error.code().code(), error.message()), (sqlstate, message), "{sql}");
    assert!(error.hint().is_some(), "no hint: {sql}");
    assert_eq!(value(db, "SELECT count(*) FROM outbox.events").await, "0");
}

async fn bad_input_is_refused_by_name(db: Database) {
    for (column, bad, sqlstate, message) in bad_values() {
        let given: Vec<_> = arguments(column, &bad).iter().map(|(name, value)| format!("{name} => {value}")).collect();
        refused(&db, &format!("SELECT outbox.emit({})", given.join(", ")), sqlstate, &message).await;
    }
    refused(&db, "SELECT outbox.emit('a', NULL)", "22004", "payload must not be null").await;
    refused(&db, "SELECT outbox.emit('a', NULL::bytea)", "22004", "payload must not be null").await;
    let bytes = "decode(repeat('00', 1048577), 'hex')";
    let too_large = "payload is 1048577 bytes, the limit is 1048576";
    refused(&db, &format!("SELECT outbox.emit('a', {bytes})"), "54000", too_large).await;
    let content_type = "SELECT outbox.emit('a', '\\x00'::bytea, content_type => ''";
    refused(&db, &format!("{content_type})"), "22023", "content_type must not be empty").await;
    let content_type = format!("{content_type} || {LONG})");
    refused(&db, &content_type, "22001", "content_type is 256 bytes long, the limit is 255").await;
}

async fn bad_input_is_refused_in_an_insert_too(db: Database) {
    for (column, bad, sqlstate, message) in bad_values() {
        let (names, values): (Vec<_>, Vec<_>) = arguments(column, &bad).into_iter().unzip();
        let insert = format!("INSERT INTO outbox.events ({}) SELECT {}", names.join(", "), values.join(", "));
        refused(&db, &insert, sqlstate, &message).await;
    }
    let both = "INSERT INTO outbox.events (topic, payload, payload_bytes) VALUES ('a', '{}', '\\x00')";
    refused(&db, both, "22023", "payload and payload_bytes must not both be given").await;
}

async fn what_just_fits_is_admitted(db: Database) {
    run(
        &db,
        "SELECT outbox.emit(repeat('ü', 127) || 'x', to_jsonb(repeat('x', 1048574)), event_type => repeat('x', 255),
             aggregate_type => repeat('x', 255), aggregate_id => repeat('x', 255), correlation_id => repeat('x', 255),
             exchange => repeat('x', 255), headers => jsonb_build_object(repeat('x', 255), 1));
         SELECT outbox.emit('a', '{}', headers => jsonb_build_object('a', repeat('x', 65525)));
         SELECT outbox.emit('a', '{}', headers => ('{\"a\": ' || repeat('[', 63) || repeat(']', 63) || '}')::jsonb);
         SELECT outbox.emit('a', '{}', headers => '{\"\\\"\": \"\", \"n\": null, \"b\": false}');
         SELECT outbox.emit('a', '{}', headers => '{\"CC\": [\"b\"], \"a\": {\"CC\": 1}, \"BCC\": []}');
         SELECT outbox.emit('a', '{}', headers => '{}');
         SELECT outbox.emit('a', 'null'); -- a JSON document like any other
         SELECT outbox.emit('a', decode(repeat('00', 1048576), 'hex'))",
    )
    .await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "8");
}

async fn a_long_name_is_quoted_by_its_beginning(db: Database) {
    let error = refusal(&db, "SELECT outbox.emit('a', '{}', headers => jsonb_build_object(repeat('ü', 200), 1))").await;
    assert_eq!(error.detail(), Some(&*format!("The name begins with \"{}\".", "ü".repeat(40))));
}

async fn nul_cannot_get_in(db: Database) {
    // No text and no jsonb of PostgreSQL holds one, so no call of ours ever sees it. (A json holds its escape.)
    for (sql, sqlstate) in [
        (r"SELECT outbox.emit(E'a\0b', '{}')", "22021"),
        (r"SELECT outbox.emit(chr(0), '{}')", "54000"),
        (r#"SELECT outbox.emit('a', '{"x": "\u0000"}'::jsonb)"#, "22P05"),
        (r#"SELECT outbox.emit('a', '{}', headers => '{"\u0000": 1}')"#, "22P05"),
        (r#"SELECT outbox.emit('a', '{}', headers => '{"h": "\u0000"}')"#, "22P05"),
    ] {
        assert_eq!(refusal(&db, sql).await.code().code(), sqlstate, "{sql}");
    }
    let parameter = db.query("SELECT outbox.emit($1, '{}')", &[&"a\0b"]).await.unwrap_err();
    assert_eq!(parameter.code().unwrap().code(), "22021");
}
