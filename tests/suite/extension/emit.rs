//! `outbox.emit` puts one event into the table, in the caller's transaction.

use harness::Database;
use serde_json::json;

use super::{on_both_installations, run, text, value};

on_both_installations!(
    an_event_waits_under_the_id_that_emit_returned,
    every_argument_reaches_its_column,
    a_string_is_taken_as_json_without_a_cast,
    bytes_are_kept_as_they_are,
    a_text_with_a_content_type_is_the_body_letter_for_letter,
    numbers_in_json_keep_all_their_digits,
    an_event_shares_the_fate_of_its_transaction,
    an_event_shares_the_fate_of_its_savepoint,
    a_set_based_call_emits_an_event_per_row,
    a_trigger_can_emit,
    ids_sort_in_the_order_they_were_made,
    ids_are_version_7_of_now,
    an_event_that_a_foreign_trigger_swallows_is_not_reported_as_emitted,
);

async fn an_event_waits_under_the_id_that_emit_returned(db: Database) {
    let id = value(&db, r#"SELECT outbox.emit('orders.created', '{"id": 1}')"#).await;
    let row = "SELECT (id, status, attempts, topic, payload, created_at <= now()) FROM outbox.events";
    assert_eq!(value(&db, row).await, format!(r#"({id},PENDING,0,orders.created,"{{""id"": 1}}",t)"#));
    let rest = "SELECT num_nonnulls(exchange, event_type, aggregate_type, aggregate_id, payload_bytes, content_type,
        headers, correlation_id, available_at, last_error, last_attempted_at, processed_at) FROM outbox.events";
    assert_eq!(value(&db, rest).await, "0");
}

async fn every_argument_reaches_its_column(db: Database) {
    run(
        &db,
        r#"SELECT outbox.emit(topic => 'a.b', payload => '{"p": 1}'::jsonb, event_type => 'T', aggregate_type => 'order',
            aggregate_id => '42', headers => '{"h": [1, {"deep": true}]}', correlation_id => 'c', exchange => 'x',
            available_at => '2999-01-01Z')"#,
    )
    .await;
    let row = "SELECT (topic, payload, event_type, aggregate_type, aggregate_id, headers, correlation_id, exchange,
        available_at = '2999-01-01Z') FROM outbox.events";
    assert_eq!(value(&db, row).await, r#"(a.b,"{""p"": 1}",T,order,42,"{""h"": [1, {""deep"": true}]}",c,x,t)"#);
    // And in the order of the documentation, without names.
    run(
        &db,
        "DELETE FROM outbox.events;
         SELECT outbox.emit('a.b', '{\"p\": 1}', 'T', 'order', '42', '{\"h\": [1, {\"deep\": true}]}', 'c', 'x', '2999-01-01Z')",
    )
    .await;
    assert_eq!(value(&db, row).await, r#"(a.b,"{""p"": 1}",T,order,42,"{""h"": [1, {""deep"": true}]}",c,x,t)"#);
}

async fn a_string_is_taken_as_json_without_a_cast(db: Database) {
    // A parameter of unknown type, as psycopg and node-postgres send it, a text one (JDBC), and a jsonb one.
    db.query_one("SELECT outbox.emit($1, $2)", &[&"a", &"[1]"]).await.unwrap();
    db.query_one("SELECT outbox.emit($1, $2::varchar)", &[&"a", &"[2]"]).await.unwrap();
    db.query_one("SELECT outbox.emit($1, $2::jsonb)", &[&"a", &json!([3])]).await.unwrap();
    let payloads = "SELECT string_agg(payload::text, ' ' ORDER BY seq) FROM outbox.events";
    assert_eq!(value(&db, payloads).await, "[1] [2] [3]");

    let error = super::refusal(&db, "SELECT outbox.emit('a', 'no json')").await;
    assert_eq!(error.code().code(), "22P02");
}

async fn bytes_are_kept_as_they_are(db: Database) {
    run(&db, r"SELECT outbox.emit('a', '\x00ff'::bytea, content_type => 'application/protobuf', event_type => 'T')")
        .await;
    let row = "SELECT (payload_bytes, content_type, event_type, payload) FROM outbox.events";
    assert_eq!(value(&db, row).await, r#"("\\x00ff",application/protobuf,T,)"#);

    for call in [r"outbox.emit('a', '\x00'::bytea)", r"outbox.emit('a', '\x00'::bytea, content_type => NULL)"] {
        run(&db, &format!("DELETE FROM outbox.events; SELECT {call}")).await;
        let content_type = "SELECT content_type FROM outbox.events";
        assert_eq!(value(&db, content_type).await, "application/octet-stream", "{call}");
    }
    // A body may be empty: the event itself is the news.
    run(&db, r"SELECT outbox.emit('a', ''::bytea)").await;
}

/// Literals and parameters have no type yet, when PostgreSQL chooses the function.
async fn a_text_with_a_content_type_is_the_body_letter_for_letter(db: Database) {
    for body in [r#"{"p": "C:\\dir", "b": 1, "a": 1e2}"#, r"\x6869", "<é/>", "no json"] {
        let row = "SELECT convert_from(payload_bytes, 'UTF8') || ' ' || content_type FROM outbox.events";
        for call in [
            format!("outbox.emit('t', '{body}', content_type => 'text/x')"),
            format!(
                "outbox.emit('t', '{body}'::text, aggregate_id => random()::text, content_type => lower('TEXT/X'))"
            ),
        ] {
            run(&db, &format!("DELETE FROM outbox.events; SELECT {call}")).await;
            assert_eq!(value(&db, row).await, format!("{body} text/x"), "{call}");
        }
        run(&db, "DELETE FROM outbox.events").await;
        db.query_one("SELECT outbox.emit($1, $2, content_type => $3)", &[&"t", &body, &"text/x"]).await.unwrap();
        assert_eq!(value(&db, row).await, format!("{body} text/x"));
    }
    for (call, state) in [
        ("outbox.emit('t', NULL::text, content_type => 'text/x')", "22004"),
        ("outbox.emit('t', 'x', content_type => '')", "22023"),
        ("outbox.emit('t', 'no json', content_type => NULL)", "22P02"),
        ("outbox.emit('t', repeat('x', 1048577), content_type => 'text/x')", "54000"),
    ] {
        assert_eq!(super::refusal(&db, &format!("SELECT {call}")).await.code().code(), state, "{call}");
    }
}

async fn numbers_in_json_keep_all_their_digits(db: Database) {
    let precise = r#"{"n": 12345678901234567890.12345678901234567890, "z": 1.500}"#;
    run(&db, &format!("SELECT outbox.emit('a', '{precise}'::jsonb, headers => '{precise}')")).await;
    let row = "SELECT payload::text || headers::text FROM outbox.events";
    assert_eq!(value(&db, row).await, format!("{precise}{precise}"));
}

async fn an_event_shares_the_fate_of_its_transaction(db: Database) {
    let other = db.connect().await;
    run(&db, "BEGIN; SELECT outbox.emit('rolled.back', '{}')").await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "1");
    assert_eq!(value(&other, "SELECT count(*) FROM outbox.events").await, "0");
    run(&db, "ROLLBACK; BEGIN; SELECT outbox.emit('committed', '{}'); COMMIT").await;
    assert_eq!(value(&other, "SELECT string_agg(topic, ' ') FROM outbox.events").await, "committed");
}

async fn an_event_shares_the_fate_of_its_savepoint(db: Database) {
    run(
        &db,
        "BEGIN;
         SELECT outbox.emit('first', '{}');
         SAVEPOINT s;
         SELECT outbox.emit('second', '{}');
         ROLLBACK TO s;
         SELECT outbox.emit('third', '{}');
         SAVEPOINT t",
    )
    .await;
    // A refused call aborts only its savepoint, as any error does.
    super::refusal(&db, "SELECT outbox.emit('', '{}')").await;
    run(&db, "ROLLBACK TO t; COMMIT").await;
    let topics = "SELECT string_agg(topic, ' ' ORDER BY seq) FROM outbox.events";
    assert_eq!(value(&db, topics).await, "first third");
}

async fn a_set_based_call_emits_an_event_per_row(db: Database) {
    run(
        &db,
        "CREATE TABLE orders (id int, total numeric);
         INSERT INTO orders SELECT n, n * 1.5 FROM generate_series(1, 1000) AS n;
         SELECT outbox.emit('orders.created', to_jsonb(o), aggregate_type => 'order', aggregate_id => o.id::text)
         FROM orders AS o",
    )
    .await;
    let same = "SELECT count(*) FROM outbox.events AS e JOIN orders AS o
        ON e.aggregate_id = o.id::text AND e.payload::jsonb = to_jsonb(o)";
    assert_eq!(value(&db, same).await, "1000");
}

async fn a_trigger_can_emit(db: Database) {
    run(
        &db,
        "CREATE TABLE orders (id int);
         CREATE FUNCTION announce() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             PERFORM outbox.emit('orders.' || lower(tg_op), to_jsonb(new));
             RETURN new;
         END $$;
         CREATE TRIGGER announce AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION announce();
         INSERT INTO orders VALUES (1), (2);
         UPDATE orders SET id = 3 WHERE id = 1",
    )
    .await;
    let events = "SELECT string_agg(topic || payload::text, ' ' ORDER BY seq) FROM outbox.events";
    assert_eq!(value(&db, events).await, r#"orders.insert{"id": 1} orders.insert{"id": 2} orders.update{"id": 3}"#);
}

async fn ids_sort_in_the_order_they_were_made(db: Database) {
    run(
        &db,
        "SELECT outbox.emit('a', '{}') FROM generate_series(1, 2000);
         INSERT INTO outbox.events (topic, payload) SELECT 'a', '{}' FROM generate_series(1, 2000)",
    )
    .await;
    let out_of_order = "SELECT count(*) FROM (SELECT id > lag(id) OVER (ORDER BY seq) AS later FROM outbox.events) AS e
        WHERE later IS FALSE";
    assert_eq!(value(&db, out_of_order).await, "0");
}

async fn ids_are_version_7_of_now(db: Database) {
    let id: uuid::Uuid = db.query_one("SELECT outbox.emit('a', '{}')", &[]).await.unwrap().get(0);
    assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
    let age = "SELECT abs(extract(epoch FROM now()) - ('x' || lpad(left(replace(id::text, '-', ''), 12), 16, '0'))::bit(64)::bigint
        / 1000.0) < 60 FROM outbox.events";
    assert_eq!(value(&db, age).await, "true");
}

async fn an_event_that_a_foreign_trigger_swallows_is_not_reported_as_emitted(db: Database) {
    run(
        &db,
        "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER z BEFORE INSERT ON outbox.events FOR EACH ROW EXECUTE FUNCTION swallow()",
    )
    .await;
    let error = super::refusal(&db, "SELECT outbox.emit('a', '{}')").await;
    assert_eq!((error.code().code(), error.message()), ("09000", "the event was not inserted"));
    assert_eq!(text(&db, "SELECT max(topic) FROM outbox.events").await, None);
}
