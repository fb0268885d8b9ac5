//! The size of JSON is that of its text, which is what is sent: PostgreSQL keeps `1e131071` in 8 bytes and prints it in
//! 131,072.

use harness::Database;

use super::{limits::refused, on_both_installations, refusal, run, value};

on_both_installations!(
    a_number_counts_as_it_is_printed,
    what_would_print_beyond_any_message_is_refused_unprinted,
    the_size_in_the_message_is_that_of_the_text,
    a_payload_of_exactly_the_limit_is_admitted,
    a_deep_payload_is_measured,
    headers_count_as_they_are_printed,
    a_restored_row_may_be_as_large_as_a_message_and_no_larger,
);

/// A JSON array of `count` times the number. (jsonb_agg would print each.)
fn numbers(number: &str, count: u32) -> String {
    format!("(SELECT ('[' || string_agg('{number}', ',') || ']')::jsonb FROM generate_series(1, {count}))")
}

async fn a_number_counts_as_it_is_printed(db: Database) {
    let too_large = format!("SELECT outbox.emit('a', {})", numbers("1e131071", 8));
    refused(&db, &too_large, "54000", "payload is 1048592 bytes, the limit is 1048576").await;
    let too_large = format!("INSERT INTO outbox.events (topic, payload) SELECT 'a', {}", numbers("-1e-16383", 64));
    refused(&db, &too_large, "54000", "payload is 1048832 bytes, the limit is 1048576").await;
    run(&db, &format!("SELECT outbox.emit('a', {})", numbers("1e131071", 7))).await;
    assert_eq!(value(&db, "SELECT octet_length(payload::text) FROM outbox.events").await, "917518");
}

async fn what_would_print_beyond_any_message_is_refused_unprinted(db: Database) {
    // More than a GB, which PostgreSQL could not print; a number of no value; and numbers beyond reach of any memory.
    for (number, count) in [("1e131071", 8200), ("0e-16383", 8200), ("-1e131071", 100_000)] {
        let json = numbers(number, count);
        let message = "payload is more than 134217728 bytes, the limit is 1048576";
        refused(&db, &format!("SELECT outbox.emit('a', {json})"), "54000", message).await;
        refused(&db, &format!("INSERT INTO outbox.events (topic, payload) SELECT 'a', {json}"), "54000", message).await;
    }
    let message = "headers are more than 134217728 bytes, the limit is 65536";
    let headers = numbers("1e131071", 8200);
    refused(
        &db,
        &format!("SELECT outbox.emit('a', '{{}}', headers => jsonb_build_object('a', {headers}))"),
        "54000",
        message,
    )
    .await;
}

/// Documents with everything that has a way of its own to be printed.
const DOCUMENTS: &str = r#"CREATE TABLE documents AS SELECT j::jsonb FROM (VALUES
    ('{}'), ('[]'), ('""'), ('"x"'), ('null'), ('true'), ('false'), ('12'), ('-1'), ('[[], {}, [{}], ""]'),
    ('{"a": {"b": [1, "two", null, true, false, {"c": {}}]}, "": "", "b": []}'),
    ('"\" \\ / \b \f \n \r \t \u0001 \u001f \u007f é 😀"'), ('{"\"\\\n\u0002ü": 1}'),
    ('[0, 0.0, -0, -0.00, 1, 9, 10, 99, 100, 999, 1000, 9999, 10000, 99999999, 100000000, 123456789012345678901234567890]'),
    ('[0.1, 0.01, 0.0001, 0.00001, 1.10, -1.5, 1e5, 1e-5, -1e20, 1e-20, 1234.5678, 10000.0001, 1.000000000000000000000000]'),
    ('[1e63, 1e64, 1e252, 1e255, 1e256, 1e260, 1e-63, 1e-64, -1.5e1000, 1e131071, 9.99e-16381, 0e-16383, 9.5e131071]')
    ) AS literals (j)
    UNION ALL SELECT jsonb_agg(n) FROM generate_series(1, 100) n
    UNION ALL SELECT jsonb_agg(null::int) FROM generate_series(1, 10000) n
    UNION ALL SELECT jsonb_object_agg(n, repeat(E'\n', n)) FROM generate_series(1, 100) n
    UNION ALL SELECT to_jsonb(repeat(chr(1), 100000) || 'ü')
    UNION ALL SELECT jsonb_object_agg('k' || n, jsonb_build_object('n', n / 7.0, 's', md5(n::text), 'a', array[n, -n]))
        FROM generate_series(1, 2000) n
    UNION ALL SELECT jsonb_agg((power(-10::numeric, n % 50) * n)::numeric * 1.000) FROM generate_series(1, 1000) n"#;

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
             FOR document IN SELECT j, octet_length(j::text) AS bytes FROM documents LOOP
                 BEGIN
                     PERFORM outbox.emit('a', document.j);
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

async fn a_deep_payload_is_measured(db: Database) {
    let deep = "(repeat('[', 5000) || repeat(']', 5000))::jsonb";
    run(&db, "SET outbox.max_payload_bytes = 9999").await;
    refused(&db, &format!("SELECT outbox.emit('a', {deep})"), "54000", "payload is 10000 bytes, the limit is 9999")
        .await;
    run(&db, "SET outbox.max_payload_bytes = 10000").await;
    run(&db, &format!("SELECT outbox.emit('a', {deep})")).await;
}

async fn headers_count_as_they_are_printed(db: Database) {
    let headers = |json: &str| format!("SELECT outbox.emit('a', '{{}}', headers => jsonb_build_object('a', {json}))");
    // In AMQP these are 8 bytes each, but they leave the database as text.
    let message = "headers are 81942 bytes, the limit is 65536";
    refused(&db, &headers(&numbers("1e-16383", 5)), "54000", message).await;
    refused(&db, &headers("repeat(chr(1), 11000)"), "54000", "headers are 66009 bytes, the limit is 65536").await;
    // As text they fit, in AMQP they do not.
    refused(&db, &headers(&numbers("1", 8000)), "54000", "headers are 72011 bytes, the limit is 65536").await;
    run(&db, &headers(&numbers("1e-16383", 3))).await;
    run(&db, &headers("repeat('x', 65525)")).await;
}

async fn a_restored_row_may_be_as_large_as_a_message_and_no_larger(db: Database) {
    run(&db, "SET outbox.max_payload_bytes = 10").await;
    let restore = |payload: &str| format!("INSERT INTO outbox.events (topic, created_at, {payload}");
    run(&db, &restore("payload) VALUES ('a', '2020-01-01', to_jsonb(repeat('x', 2000)))")).await;
    run(&db, "DELETE FROM outbox.events").await;
    for payload in [
        "payload) SELECT 'a', '2020-01-01', ('[' || repeat('1e131071,', 1024) || '1]')::jsonb",
        "payload_bytes) SELECT 'a', '2020-01-01', convert_to(repeat('x', 134217729), 'UTF8')",
    ] {
        let error = refusal(&db, &restore(payload)).await;
        let message = "payload is more than 134217728 bytes, the limit is 134217728";
        assert_eq!((error.code().code(), error.message()), ("54000", message));
        assert_eq!(error.detail(), Some("No RabbitMQ takes a larger message by default."));
    }
}
