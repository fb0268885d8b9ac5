//! A JSON body is kept and sent as it was written, and its size is that of its text.

use harness::Database;

use super::{limits::refused, on_both_installations, refusal, run, value};

on_both_installations!(
    json_is_kept_letter_for_letter,
    a_jsonb_is_kept_as_postgresql_prints_it,
    a_number_counts_as_it_is_written,
    a_jsonb_counts_as_it_is_printed,
    the_size_in_the_message_is_that_of_the_text,
    a_payload_of_exactly_the_limit_is_admitted,
    a_deep_payload_is_kept,
    headers_count_as_they_are_written,
    what_is_kept_of_headers_is_within_the_limit_however_they_were_inserted,
    headers_that_jsonb_cannot_hold_are_refused,
    what_a_repeated_name_hides_is_refused_or_not_kept,
    a_restored_row_may_be_as_large_as_a_message_and_no_larger,
);

/// What jsonb would change, or does not hold at all.
const LETTERS: [&str; 6] = [
    r#"{"b": 1,  "a": 1e2, "b": 2}"#,
    "[ 1.50,\n\t-0 ]",
    r#"{"x": "\u0000 \ud800 \u00e9 \/"}"#,
    "1e131071",
    "1e200000",
    "  \"x\"  ",
];

async fn json_is_kept_letter_for_letter(db: Database) {
    for written in LETTERS {
        let quoted = format!("'{written}'");
        run(&db, &format!("SELECT outbox.emit('a', {quoted}), outbox.emit('a', {quoted}::json)")).await;
        run(&db, &format!("INSERT INTO outbox.events (topic, payload) VALUES ('a', {quoted})")).await;
        let kept = format!("SELECT count(*) FROM outbox.events WHERE payload::text = {quoted}");
        assert_eq!(value(&db, &kept).await, "3", "{written}");
    }
}

async fn a_jsonb_is_kept_as_postgresql_prints_it(db: Database) {
    run(&db, r#"SELECT outbox.emit('a', '{"b": 1,  "a": 1e2, "b": 2}'::jsonb)"#).await;
    assert_eq!(value(&db, "SELECT payload::text FROM outbox.events").await, r#"{"a": 100, "b": 2}"#);
}

/// A JSON array of `count` times the number.
fn numbers(number: &str, count: u32) -> String {
    format!("('[' || repeat('{number},', {count} - 1) || '{number}]')")
}

async fn a_number_counts_as_it_is_written(db: Database) {
    let too_large = numbers("1e131071", 120_000);
    let message = "payload is 1080001 bytes, the limit is 1048576";
    refused(&db, &format!("SELECT outbox.emit('a', {too_large})"), "54000", message).await;
    let insert = format!("INSERT INTO outbox.events (topic, payload) VALUES ('a', {too_large}::json)");
    refused(&db, &insert, "54000", message).await;
    let written = numbers("1e131071", 100_000);
    run(&db, &format!("SELECT outbox.emit('a', {written})")).await;
    assert_eq!(value(&db, "SELECT octet_length(payload::text) FROM outbox.events").await, "900001");
}

async fn a_jsonb_counts_as_it_is_printed(db: Database) {
    let jsonb = |number, count| format!("SELECT outbox.emit('a', {}::jsonb)", numbers(number, count));
    refused(&db, &jsonb("1e131071", 8), "54000", "payload is 1048592 bytes, the limit is 1048576").await;
    refused(&db, &jsonb("-1e-16383", 64), "54000", "payload is 1048832 bytes, the limit is 1048576").await;
    run(&db, &jsonb("1e131071", 7)).await;
    assert_eq!(value(&db, "SELECT octet_length(payload::text) FROM outbox.events").await, "917518");
    // More than a GB, which PostgreSQL cannot print.
    assert_eq!(refusal(&db, &jsonb("1e131071", 8200)).await.code().code(), "54000");
}

/// Documents of many kinds.
const DOCUMENTS: &str = r#"CREATE TABLE documents AS SELECT j::json FROM (VALUES
    ('{}'), ('[]'), ('""'), ('"x"'), ('null'), ('true'), ('false'), ('12'), ('-1'), ('[[], {}, [{}], ""]'),
    ('{"a": {"b": [1, "two", null, true, false, {"c": {}}]}, "": "", "b": []}'),
    ('"\" \\ / \b \f \n \r \t \u0001 \u001f \u007f é 😀"'), ('{"\"\\\n\u0002ü": 1}'),
    ('[0, 0.0, -0, -0.00, 123456789012345678901234567890, 0.00001, 1.10, 1e63, -1.5e1000, 9.5E+131071, 9e-16383]')
    ) AS literals (j)
    UNION ALL SELECT json_agg(null::int) FROM generate_series(1, 10000) n
    UNION ALL SELECT json_object_agg(n, repeat(E'\n', n)) FROM generate_series(1, 100) n
    UNION ALL SELECT to_json(repeat(chr(1), 100000) || 'ü')
    UNION ALL SELECT json_object_agg('k' || n, json_build_object('n', n / 7.0, 's', md5(n::text), 'a', array[n, -n]))
        FROM generate_series(1, 2000) n"#;

async fn the_size_in_the_message_is_that_of_the_text(db: Database) {
    run(&db, DOCUMENTS).await;
    run(
        &db,
        "DO $$
         DECLARE
             document record;
             refusal text;
         BEGIN
             PERFORM set_config('outbox.max_payload_bytes', '1', true);
             FOR document IN
                 SELECT false AS parsed, j, octet_length(j::text) AS bytes FROM documents
                 UNION ALL SELECT true, j, octet_length(j::jsonb::text) FROM documents
             LOOP
                 BEGIN
                     IF document.parsed THEN
                         PERFORM outbox.emit('a', document.j::jsonb);
                     ELSE
                         PERFORM outbox.emit('a', document.j);
                     END IF;
                     refusal := 'none';
                 EXCEPTION WHEN program_limit_exceeded THEN
                     refusal := sqlerrm;
                 END;
                 ASSERT refusal = format('payload is %s bytes, the limit is 1', document.bytes),
                     format('%s: %s', refusal, left(document.j::text, 200));
             END LOOP;
         END $$",
    )
    .await;
}

async fn a_payload_of_exactly_the_limit_is_admitted(db: Database) {
    run(&db, DOCUMENTS).await;
    run(
        &db,
        "SELECT set_config('outbox.max_payload_bytes', octet_length(j::text)::text, false), outbox.emit('a', j)
         FROM documents",
    )
    .await;
    let same = "SELECT count(*) = (SELECT count(*) FROM documents) FROM outbox.events";
    assert_eq!(value(&db, same).await, "true");
}

async fn a_deep_payload_is_kept(db: Database) {
    run(&db, "SELECT outbox.emit('a', repeat('[', 5000) || repeat(']', 5000))").await;
    assert_eq!(value(&db, "SELECT octet_length(payload::text) FROM outbox.events").await, "10000");
}

async fn headers_count_as_they_are_written(db: Database) {
    let insert =
        |headers: &str| format!("INSERT INTO outbox.events (topic, payload, headers) VALUES ('a', '1', {headers})");
    let emit = |json: &str| format!("SELECT outbox.emit('a', '{{}}', headers => jsonb_build_object('a', {json}))");
    let array = |number, count| format!("{}::jsonb", numbers(number, count));
    // In AMQP these are 8 bytes each, but they leave the database as text.
    let message = "headers are 81942 bytes, the limit is 65536";
    refused(&db, &emit(&array("1e-16383", 5)), "54000", message).await;
    refused(&db, &emit("repeat(chr(1), 11000)"), "54000", "headers are 66009 bytes, the limit is 65536").await;
    refused(
        &db,
        &insert("('{\"a\": \"' || repeat('x', 65528) || '\"}')::json"),
        "54000",
        "headers are 65537 bytes, the limit is 65536",
    )
    .await;
    // As text they fit, in AMQP they do not.
    refused(&db, &emit(&array("1", 8000)), "54000", "headers are 72011 bytes, the limit is 65536").await;
    run(&db, &emit(&array("1e-16383", 3))).await;
    run(&db, &emit("repeat('x', 65525)")).await;
    let written = r#" {"b": 1e2, "a" : "\u00e9", "b": 1} "#;
    run(&db, &insert(&format!("'{written}'"))).await;
    let last = "SELECT headers::jsonb FROM outbox.events ORDER BY seq DESC LIMIT 1";
    assert_eq!(value(&db, last).await, r#"{"a": "é", "b": 1}"#);
}

async fn what_is_kept_of_headers_is_within_the_limit_however_they_were_inserted(db: Database) {
    // As they are given these fit; as jsonb prints them they do not.
    for (item, count) in [("1e-16383", 7200), ("null", 13000)] {
        let inserted = db
            .batch_execute(&format!(
                "INSERT INTO outbox.events (topic, payload, headers)
                 SELECT 'a', '1', ('{{\"a\":[' || string_agg('{item}', ',') || ']}}')::json FROM generate_series(1, {count})"
            ))
            .await;
        if let Err(error) = inserted {
            assert_eq!(error.code().map(|code| code.code()), Some("54000"), "{item}: {error:?}");
        }
    }
    let longest = "SELECT coalesce(max(octet_length(headers::text)), 0) <= 65536 FROM outbox.events";
    assert_eq!(value(&db, longest).await, "true");
}

async fn headers_that_jsonb_cannot_hold_are_refused(db: Database) {
    for (headers, sqlstate) in [
        (r#"{"a": "\u0000"}"#, "22P05"),
        (r#"{"\u0000": 1}"#, "22P05"),
        (r#"{"a": 1e400}"#, "22003"),
        (r#"{"a": [1e200000]}"#, "22003"),
        (r#"{"x": {"": 1}}"#, "22023"),
        (r#"{"CC" : "x"}"#, "22023"),
        (r#"{"\u0043C": "x"}"#, "22023"),
        (r#"{"x\u002ddeath": []}"#, "22023"),
        ("[]", "22023"),
    ] {
        let insert = format!("INSERT INTO outbox.events (topic, payload, headers) VALUES ('a', '1', '{headers}')");
        assert_eq!(refusal(&db, &insert).await.code().code(), sqlstate, "{headers}");
    }
}

async fn what_a_repeated_name_hides_is_refused_or_not_kept(db: Database) {
    let long = "x".repeat(256);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for headers in [
        r#"{"a": 1e400, "a": 1}"#.to_owned(),
        r#"{"a": [{"b": 1e400, "b": 2}]}"#.to_owned(),
        format!(r#"{{"a": {{"{long}": 1}}, "a": 1}}"#),
        format!(r#"{{"a": {deep}, "a": 1}}"#),
        r#"{"a": {"": 1}, "a": 1}"#.to_owned(),
    ] {
        let insert = format!("INSERT INTO outbox.events (topic, payload, headers) VALUES ('a', '1', '{headers}')");
        if let Err(refused) = db.batch_execute(&insert).await {
            let code = refused.code().unwrap().code();
            assert!(["22003", "22001", "22023", "54000"].contains(&code), "{headers}: {code}");
        }
    }
    let kept = "SELECT string_agg(DISTINCT left(headers::text, 30), ' ') FROM outbox.events";
    let kept = super::text(&db, kept).await.unwrap_or_default();
    assert!(["", r#"{"a": 1} {"a": [{"b": 2}]}"#].contains(&kept.as_str()), "{kept}");
}

async fn a_restored_row_may_be_as_large_as_a_message_and_no_larger(db: Database) {
    run(&db, "SET outbox.max_payload_bytes = 10").await;
    let restore = |payload: &str| format!("INSERT INTO outbox.events (topic, created_at, {payload}");
    run(&db, &restore("payload) VALUES ('a', '2020-01-01', to_json(repeat('x', 2000)))")).await;
    run(&db, "DELETE FROM outbox.events").await;
    for payload in [
        "payload) SELECT 'a', '2020-01-01', to_json(repeat('x', 134217727))",
        "payload_bytes) SELECT 'a', '2020-01-01', convert_to(repeat('x', 134217729), 'UTF8')",
    ] {
        let error = refusal(&db, &restore(payload)).await;
        let message = "payload is more than 134217728 bytes, the limit is 134217728";
        assert_eq!((error.code().code(), error.message()), ("54000", message));
        assert_eq!(error.detail(), Some("No RabbitMQ takes a larger message by default."));
    }
}
