//! What a DBA does to the columns of `outbox.events` costs an error at worst, never the server.

use harness::Database;

use super::{on_both_installations, refusal, run, value};

on_both_installations!(
    columns_that_exchange_their_names_exchange_their_rules,
    a_shorter_text_or_a_domain_is_taken_for_what_it_is,
    a_column_of_another_type_is_refused_and_taken_again_when_it_is_back,
);

const INSERT: &str = "INSERT INTO outbox.events (topic, payload) VALUES (DEFAULT, '{}')";

/// Takes away what PostgreSQL asks to be taken away before a column's type may change.
async fn make_room(db: &Database) {
    run(
        db,
        "DROP TRIGGER envelope_is_final ON outbox.events; DROP TRIGGER status_moves ON outbox.events;
         DO $$ BEGIN
             IF EXISTS (SELECT FROM pg_extension WHERE extname = 'outbox') THEN
                 ALTER EXTENSION outbox DROP VIEW outbox.failed;
                 ALTER EXTENSION outbox DROP VIEW outbox.backlog;
             END IF;
             DROP VIEW outbox.failed, outbox.backlog;
         END $$",
    )
    .await;
}

async fn columns_that_exchange_their_names_exchange_their_rules(db: Database) {
    let insert = "INSERT INTO outbox.events (event_type, payload) VALUES ('T', '{}')";
    run(&db, "SELECT outbox.emit('t', '1'); INSERT INTO outbox.events (topic, payload) VALUES ('t', '{}')").await;
    run(
        &db,
        "ALTER TABLE outbox.events RENAME topic TO other; ALTER TABLE outbox.events RENAME event_type TO topic;
         ALTER TABLE outbox.events RENAME other TO event_type",
    )
    .await;
    for _ in 0..2 {
        let error = refusal(&db, insert).await;
        assert_eq!((error.code().code(), error.message()), ("22004", "topic must not be null"));
    }
    run(&db, "INSERT INTO outbox.events (topic, event_type, payload) VALUES ('t', 'T', '{}')").await;
}

async fn a_shorter_text_or_a_domain_is_taken_for_what_it_is(db: Database) {
    make_room(&db).await;
    run(
        &db,
        "CREATE DOMAIN label AS text CHECK (VALUE <> 'no');
         ALTER TABLE outbox.events ALTER topic TYPE varchar(5), ALTER event_type TYPE label, ALTER correlation_id TYPE varchar(5),
             ALTER content_type TYPE label",
    )
    .await;
    run(&db, "SELECT outbox.emit('t', '1', event_type => 'yes')").await;
    assert_eq!(refusal(&db, "SELECT outbox.emit('123456', '1')").await.code().code(), "22001");
    assert_eq!(refusal(&db, "SELECT outbox.emit('t', '1', event_type => 'no')").await.code().code(), "23514");
    // What the trigger puts there itself.
    run(&db, "SET outbox.correlation_id = '12345'; SELECT outbox.emit('t', '\\x00'::bytea)").await;
    assert_eq!(
        value(&db, "SELECT max(correlation_id) || max(content_type) FROM outbox.events").await,
        "12345application/octet-stream"
    );
    run(&db, "SET outbox.correlation_id = '123456'").await;
    for _ in 0..2 {
        assert_eq!(refusal(&db, "SELECT outbox.emit('t', '1')").await.code().code(), "22001");
    }
}

async fn a_column_of_another_type_is_refused_and_taken_again_when_it_is_back(db: Database) {
    let other = db.connect().await;
    let insert = "INSERT INTO outbox.events (topic, payload) VALUES ('1', '1')";
    for session in [&*db, &other] {
        run(session, insert).await;
    }
    make_room(&db).await;
    for (column, kind, back) in [
        ("topic", "int USING 1", "text"),
        ("payload", "text", "json USING payload::json"),
        ("headers", "text USING headers::text", "json USING headers::json"),
        ("correlation_id", "uuid USING NULL", "text"),
        ("created_at", "text", "timestamptz USING created_at::timestamptz"),
    ] {
        run(&db, &format!("ALTER TABLE outbox.events ALTER {column} TYPE {kind}")).await;
        let cold = db.connect().await;
        for session in [&*db, &other, &cold] {
            let error =
                refusal(session, "INSERT INTO outbox.events (topic, payload, headers) VALUES ('1', '1', '{}')").await;
            // Undefined is a function of that type: the plain SQL does not ask for types before it calls.
            assert!(["42804", "42883"].contains(&error.code().code()), "{column}: {error:?}");
        }
        run(&db, &format!("ALTER TABLE outbox.events ALTER {column} TYPE {back}")).await;
        run(&*db.connect().await, insert).await;
    }
}

#[tokio::test]
async fn the_extension_names_the_column_and_both_types() {
    let db = super::with_the_extension().await;
    make_room(&db).await;
    run(&db, "ALTER TABLE outbox.events ALTER created_at TYPE text").await;
    let error = refusal(&db, INSERT.replace("DEFAULT", "'t'").as_str()).await;
    assert_eq!(error.code().code(), "42804");
    let message = "column created_at of table events is of type text, but an event has timestamp with time zone there";
    assert_eq!(
        (error.message(), error.hint()),
        (
            message,
            Some(
                "After an upgrade: connect anew, this session has the library of the earlier version. Otherwise give the column its type back."
            )
        )
    );
    run(&db, "ALTER TABLE outbox.events RENAME created_at TO made_at").await;
    let error = refusal(&db, INSERT.replace("DEFAULT", "'t'").as_str()).await;
    assert_eq!((error.code().code(), error.message()), ("42703", "column created_at of table events does not exist"));
}
