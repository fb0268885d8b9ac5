//! `outbox.max_payload_bytes`: how large a payload may be.

use harness::Database;

use super::{limits::refused, on_both_installations, refusal, run, value};

on_both_installations!(
    the_limit_of_the_payload_is_a_setting,
    a_compressed_payload_counts_in_full,
    a_limit_that_is_no_size_is_refused,
);

async fn the_limit_of_the_payload_is_a_setting(db: Database) {
    run(&db, "SET outbox.max_payload_bytes = 20").await;
    refused(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 19)))", "54000", "payload is 21 bytes, the limit is 20")
        .await;
    run(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 18)))").await;
    run(&db, "DELETE FROM outbox.events; SET outbox.max_payload_bytes = '2MB'").await;
    run(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 2097150)))").await;
    run(&db, "DELETE FROM outbox.events").await;
    let too_large = "payload is 2097153 bytes, the limit is 2097152";
    refused(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 2097151)))", "54000", too_large).await;
    run(&db, "RESET outbox.max_payload_bytes").await;
    let default = "payload is 2097153 bytes, the limit is 1048576";
    refused(&db, "SELECT outbox.emit('a', to_jsonb(repeat('x', 2097151)))", "54000", default).await;
}

async fn a_compressed_payload_counts_in_full(db: Database) {
    run(
        &db,
        "CREATE TABLE documents (j jsonb, b bytea);
         INSERT INTO documents SELECT to_jsonb(repeat('x', 2000000)), decode(repeat('00', 2000000), 'hex')",
    )
    .await;
    assert_eq!(
        value(&db, "SELECT pg_column_size(j) < 100000 AND pg_column_size(b) < 100000 FROM documents").await,
        "true"
    );
    let json = "payload is 2000002 bytes, the limit is 1048576";
    refused(&db, "SELECT outbox.emit('a', j) FROM documents", "54000", json).await;
    refused(&db, "INSERT INTO outbox.events (topic, payload) SELECT 'a', j FROM documents", "54000", json).await;
    let bytes = "payload is 2000000 bytes, the limit is 1048576";
    refused(&db, "SELECT outbox.emit('a', b) FROM documents", "54000", bytes).await;
}

async fn a_limit_that_is_no_size_is_refused(db: Database) {
    for bad in ["0", "-1", "129MB", "much"] {
        // The extension refuses the SET; without it PostgreSQL does not know the setting, and the next call refuses it.
        let error = refusal(
            &db,
            &format!(
                "SELECT outbox.uuid_v7(); SET outbox.max_payload_bytes = '{bad}'; SELECT outbox.emit('a', '{{}}')"
            ),
        )
        .await;
        assert_eq!(error.code().code(), "22023", "{bad}");
        assert!(error.message().contains("outbox.max_payload_bytes"), "{bad}: {}", error.message());
        run(&db, "RESET outbox.max_payload_bytes").await;
    }
}
