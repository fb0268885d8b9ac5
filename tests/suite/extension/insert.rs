//! Applications that cannot call a function INSERT by column privilege, and get the same.

use harness::Database;

use super::{on_both_installations, refusal, role, run, value};

on_both_installations!(
    a_plain_insert_makes_the_same_event,
    an_application_may_choose_the_id,
    a_plain_insert_cannot_write_what_is_not_the_applications,
    bytes_without_a_content_type_get_one,
);

async fn a_plain_insert_makes_the_same_event(db: Database) {
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let session = db.connect_as(&app).await;
    run(
        &session,
        "SELECT outbox.emit('a', '{\"x\": 1}', 'T', 'order', '1', '{\"h\": 1}', 'c', 'x', '2999-01-01Z');
         INSERT INTO outbox.events (topic, payload, event_type, aggregate_type, aggregate_id, headers, correlation_id,
             exchange, available_at) VALUES ('a', '{\"x\": 1}', 'T', 'order', '1', '{\"h\": 1}', 'c', 'x', '2999-01-01Z')",
    )
    .await;
    let kinds = "SELECT count(DISTINCT to_jsonb(e) - '{id,seq,created_at}'::text[]) FROM outbox.events AS e";
    assert_eq!(value(&db, kinds).await, "1");
    assert_eq!(value(&db, "SELECT count(DISTINCT id) FROM outbox.events").await, "2");
}

async fn an_application_may_choose_the_id(db: Database) {
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let session = db.connect_as(&app).await;
    let insert =
        "INSERT INTO outbox.events (id, topic, payload) VALUES ('0190163d-8694-739b-aea5-966c26f8ad91', 'a', '{}')";
    run(&session, insert).await;
    assert_eq!(value(&db, "SELECT id FROM outbox.events").await, "0190163d-8694-739b-aea5-966c26f8ad91");
    assert_eq!(refusal(&session, insert).await.code().code(), "23505");
}

async fn a_plain_insert_cannot_write_what_is_not_the_applications(db: Database) {
    let app = role(&db, "app").await;
    run(&db, &format!("SELECT outbox.grant_emit('{app}')")).await;
    let session = db.connect_as(&app).await;
    for (column, value) in [
        ("status", "'SENT'"),
        ("attempts", "1"),
        ("created_at", "now()"),
        ("last_error", "'x'"),
        ("last_attempted_at", "now()"),
        ("processed_at", "now()"),
    ] {
        let insert = format!("INSERT INTO outbox.events (topic, payload, {column}) VALUES ('a', '{{}}', {value})");
        assert_eq!(refusal(&session, &insert).await.code().code(), "42501", "{column}");
    }
    let seq = "INSERT INTO outbox.events (topic, payload, seq) OVERRIDING SYSTEM VALUE VALUES ('a', '{}', 1)";
    assert_eq!(refusal(&session, seq).await.code().code(), "42501");
}

async fn bytes_without_a_content_type_get_one(db: Database) {
    run(&db, "INSERT INTO outbox.events (topic, payload_bytes) VALUES ('a', '\\x00')").await;
    assert_eq!(value(&db, "SELECT content_type FROM outbox.events").await, "application/octet-stream");
    run(&db, "DELETE FROM outbox.events; INSERT INTO outbox.events (topic, payload) VALUES ('a', '{}')").await;
    assert_eq!(value(&db, "SELECT content_type IS NULL FROM outbox.events").await, "true");
}
