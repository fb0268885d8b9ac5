//! What a request sets once, its events carry: `outbox.correlation_id` and `outbox.traceparent`.

use harness::Database;

use super::{on_both_installations, refusal, run, value};

on_both_installations!(
    the_context_fills_what_a_call_leaves_out,
    the_context_fills_what_an_insert_leaves_out,
    what_a_call_gives_wins_over_the_context,
    the_context_ends_with_its_transaction,
    any_traceparent_is_a_header_as_it_is,
    an_over_long_context_is_refused_by_name,
);

const SET: &str =
    "BEGIN; SET LOCAL outbox.correlation_id = 'request-1'; SET LOCAL outbox.traceparent = '00-4bf9-00f0-01'";
const ROWS: &str = "SELECT string_agg(coalesce(correlation_id, '-') || coalesce(headers::text, '-'), ' ' ORDER BY seq)
    FROM outbox.events";

async fn the_context_fills_what_a_call_leaves_out(db: Database) {
    // Set before this session has loaded the library, and after.
    run(&db, &format!("{SET}; SELECT outbox.emit('a', '{{}}'); SELECT outbox.emit('a', '\\x00'::bytea); COMMIT")).await;
    run(&db, &format!("{SET}; SELECT outbox.emit('a', '{{}}', headers => '{{\"x\": 1}}'); COMMIT")).await;
    let once = r#"request-1{"traceparent": "00-4bf9-00f0-01"}"#;
    assert_eq!(
        value(&db, ROWS).await,
        format!(r#"{once} {once} request-1{{"x": 1, "traceparent": "00-4bf9-00f0-01"}}"#)
    );
}

async fn the_context_fills_what_an_insert_leaves_out(db: Database) {
    run(
        &db,
        &format!(
            "{SET}; INSERT INTO outbox.events (topic, payload) VALUES ('a', '{{}}');
             INSERT INTO outbox.events (topic, payload, correlation_id, headers) VALUES ('a', '{{}}', NULL, NULL); COMMIT"
        ),
    )
    .await;
    let once = r#"request-1{"traceparent": "00-4bf9-00f0-01"}"#;
    assert_eq!(value(&db, ROWS).await, format!("{once} {once}"));
}

async fn what_a_call_gives_wins_over_the_context(db: Database) {
    run(
        &db,
        &format!(
            "{SET}; SELECT outbox.emit('a', '{{}}', correlation_id => 'mine', headers => '{{\"traceparent\": \"mine\"}}');
             SELECT outbox.emit('a', '{{}}', correlation_id => 'mine', headers => '{{\"traceparent\": null}}');
             SELECT outbox.emit('a', '{{}}', correlation_id => 'mine', headers => '{{\"in\": {{\"traceparent\": 1}}}}'); COMMIT"
        ),
    )
    .await;
    assert_eq!(
        value(&db, ROWS).await,
        r#"mine{"traceparent": "mine"} mine{"traceparent": null} mine{"in": {"traceparent": 1}, "traceparent": "00-4bf9-00f0-01"}"#
    );
}

async fn the_context_ends_with_its_transaction(db: Database) {
    run(&db, &format!("{SET}; SELECT outbox.emit('a', '{{}}'); ROLLBACK; SELECT outbox.emit('a', '{{}}')")).await;
    run(&db, &format!("{SET}; COMMIT; SELECT outbox.emit('a', '{{}}')")).await;
    assert_eq!(value(&db, ROWS).await, "-- --");
}

async fn any_traceparent_is_a_header_as_it_is(db: Database) {
    let odd = "\"\\\t{}ü\u{1}\u{1f600}'";
    db.query("SELECT set_config('outbox.traceparent', $1, false)", &[&odd]).await.unwrap();
    run(&db, "SELECT outbox.emit('a', '{}')").await;
    assert_eq!(value(&db, "SELECT headers ->> 'traceparent' FROM outbox.events").await, odd);
}

async fn an_over_long_context_is_refused_by_name(db: Database) {
    run(&db, "SELECT set_config('outbox.correlation_id', repeat('x', 256), false)").await;
    for sql in ["SELECT outbox.emit('a', '{}')", "INSERT INTO outbox.events (topic, payload) VALUES ('a', '{}')"] {
        let error = refusal(&db, sql).await;
        assert_eq!(error.code().code(), "22001");
        assert_eq!(error.message(), "correlation_id is 256 bytes long, the limit is 255");
        assert!(error.detail().unwrap().contains("outbox.correlation_id"));
    }
    run(&db, "SELECT outbox.emit('a', '{}', correlation_id => 'short')").await;
    run(&db, "RESET outbox.correlation_id; SELECT set_config('outbox.traceparent', repeat('x', 65536), false)").await;
    assert_eq!(refusal(&db, "SELECT outbox.emit('a', '{}')").await.code().code(), "54000");
}
