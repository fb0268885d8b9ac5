//! Databases in other encodings than UTF-8: what is emitted there arrives in UTF-8, from the stream and from the table.

use harness::{Postgres, RabbitMq, SOON, Stack, places::extension_installed};

use super::wait_for_counts;

async fn stack_in(encoding: &str, has_extension: bool) -> Stack {
    let (postgres, rabbitmq) = tokio::join!(Postgres::shared(), RabbitMq::shared());
    let (db, vhost) = (postgres.empty_database_in(encoding).await, rabbitmq.vhost().await);
    if has_extension && extension_installed() {
        db.batch_execute("CREATE EXTENSION outbox").await.unwrap();
    } else {
        let installed = postgres.install_plain_sql(db.name());
        assert!(installed.status.success(), "{installed:?}");
    }
    Stack { db, vhost }
}

const EMIT: &str = "SELECT outbox.emit('straße.ü', jsonb_build_object('größe', 'é' || n), event_type => 'Änderung',
        aggregate_type => 'Größe', aggregate_id => 'ß', correlation_id => 'Ö', headers => '{\"Kopf-ü\": \"ÿ\"}')
    FROM generate_series(1, 5) AS n;
    SELECT outbox.emit('bytes', '\\x00ff'::bytea, content_type => 'application/é')";

#[tokio::test]
async fn text_json_keys_and_bytes_arrive_as_they_were_emitted() {
    for (encoding, has_extension) in [("LATIN1", true), ("LATIN1", false), ("SQL_ASCII", true), ("SQL_ASCII", false)] {
        let stack = stack_in(encoding, has_extension).await;
        let consumer = stack.consumer("#").await;
        stack.db.batch_execute(EMIT).await.unwrap(); // for the table's pass
        let relay = stack.relay().start().await;
        wait_for_counts(&stack.db, (0, 6, 0), SOON).await;
        stack.db.batch_execute(EMIT).await.unwrap(); // for the stream
        wait_for_counts(&stack.db, (0, 12, 0), SOON).await;
        let deliveries = consumer.wait_for(12).await;
        let (bytes, texts): (Vec<_>, Vec<_>) = deliveries.iter().partition(|delivery| delivery.routing_key == "bytes");
        for (number, delivery) in texts.into_iter().enumerate() {
            assert_eq!(delivery.routing_key, "straße.ü", "{encoding}");
            assert_eq!(delivery.json(), serde_json::json!({ "größe": format!("é{}", number % 5 + 1) }), "{encoding}");
            assert_eq!(delivery.key(), Some(("Größe".to_owned(), "ß".to_owned())), "{encoding}");
            assert_eq!(delivery.text_header("Kopf-ü"), Some("ÿ".to_owned()), "{encoding}");
            let property = |text: &Option<lapin::types::ShortString>| text.as_ref().map(ToString::to_string);
            assert_eq!(property(delivery.properties.kind()), Some("Änderung".to_owned()), "{encoding}");
            assert_eq!(property(delivery.properties.correlation_id()), Some("Ö".to_owned()), "{encoding}");
        }
        assert_eq!(bytes.len(), 2);
        assert!(bytes.iter().all(|delivery| delivery.body == [0, 255]), "{encoding}");

        // The broker's words name the exchange.
        stack.db.batch_execute("SELECT outbox.emit('a', '{}', exchange => 'größe')").await.unwrap();
        wait_for_counts(&stack.db, (0, 12, 1), SOON).await;
        let error = "SELECT last_error FROM outbox.events WHERE status = 'FAILED'";
        let error: String = stack.db.query_one(error, &[]).await.unwrap().get(0);
        assert!(error.starts_with("404 "), "{encoding}: {error}");
        assert!(relay.stop().await.success());
    }
}

#[tokio::test]
async fn a_row_that_is_no_text_fails_alone_in_the_backlog_and_in_the_stream() {
    let stack = stack_in("SQL_ASCII", true).await;
    let consumer = stack.consumer("#").await;
    // Past the checks: the topic of one, the key of another.
    let spoil = "ALTER TABLE outbox.events DISABLE TRIGGER admit;
        INSERT INTO outbox.events (topic, payload) VALUES (E'bad\\xff', '{}');
        INSERT INTO outbox.events (topic, payload, aggregate_id) VALUES ('bad', '{}', E'bad\\xff');
        ALTER TABLE outbox.events ENABLE ALWAYS TRIGGER admit";
    let emit = "SELECT outbox.emit('good', '1'), outbox.emit('good', '2', aggregate_id => 'k')";
    for sql in [emit, spoil, emit] {
        stack.db.batch_execute(sql).await.unwrap();
    }
    let relay = stack.relay().start().await;
    wait_for_counts(&stack.db, (0, 4, 2), SOON).await;
    for sql in [emit, spoil, emit] {
        stack.db.batch_execute(sql).await.unwrap();
    }
    wait_for_counts(&stack.db, (0, 8, 4), SOON).await;
    let errors =
        "SELECT count(*) FROM outbox.events WHERE status = 'FAILED' AND last_error LIKE '%invalid byte sequence%'";
    assert_eq!(stack.db.query_one(errors, &[]).await.unwrap().get::<_, i64>(0), 4);
    assert!(consumer.deliveries().iter().all(|delivery| delivery.routing_key == "good"));
    assert!(relay.stop().await.success());
}
