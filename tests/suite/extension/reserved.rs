//! Headers that RabbitMQ or its plugins read: what would harm there is refused when it is emitted.

use harness::Database;

use super::{limits::refused, on_both_installations, refusal, run, value};

on_both_installations!(
    a_header_that_only_rabbitmq_writes_is_refused,
    a_header_that_rabbitmq_reads_has_a_value_that_it_can_bear,
    the_first_header_that_is_wrong_is_named,
    a_type_that_rabbitmq_takes_for_encoded_amqp_is_refused,
    a_correlation_id_that_says_it_is_a_uuid_is_one,
    headers_that_only_look_like_those_are_admitted,
    a_restored_row_keeps_headers_that_are_refused_today,
);

async fn refused_with(db: &Database, headers: &str, message: &str) {
    refused(db, &format!("SELECT outbox.emit('a', '{{}}', headers => '{headers}')"), "22023", message).await;
    refused(
        db,
        &format!("INSERT INTO outbox.events (topic, payload, headers) SELECT 'a', '{{}}', '{headers}'"),
        "22023",
        message,
    )
    .await;
}

async fn a_header_that_only_rabbitmq_writes_is_refused(db: Database) {
    for name in [
        "x-death",
        "x-delivery-count",
        "x-invalid-headers",
        "x-received-from",
        "x-stream-offset",
        "x-amqp-1.0-app-properties",
        "x-basic-priority",
        "x-mqtt-publish-qos",
    ] {
        for value in ["null", "\"a\"", "[1]"] {
            refused_with(&db, &format!(r#"{{"{name}": {value}}}"#), &format!("the header {name} is RabbitMQ's own"))
                .await;
        }
    }
    let error = refusal(&db, r#"SELECT outbox.emit('a', '{}', headers => '{"x-death": ["a"]}')"#).await;
    assert_eq!(error.hint(), Some("Leave it out, or give the header another name."));
    let long = format!(r#"SELECT outbox.emit('a', '{{}}', headers => '{{"x-basic-{}": 1}}')"#, "y".repeat(100));
    let message = format!("the header x-basic-{} is RabbitMQ's own", "y".repeat(32));
    assert_eq!(refusal(&db, &long).await.message(), message);
}

async fn a_header_that_rabbitmq_reads_has_a_value_that_it_can_bear(db: Database) {
    let long = format!("\"{}\"", "x".repeat(4097));
    for (name, must, values) in [
        ("x-delay", "a number", &["null", "\"\"", "\"5s\"", "\"-5\"", "[5]", "true", "\"1234567890123456789\""][..]),
        ("x-cache-ttl", "a number", &["null", "\"5\"", "{}"]),
        ("x-correlation-id", "a text", &["5", "null", "[]"]),
        ("x-reply-to-topic", "a text", &["5", "{}"]),
        ("x-stream-filter-value", "a text of at most 4096 bytes", &["5", "null", "[\"a\"]", &long]),
        ("x-deduplication-header", "a text, a number or a boolean", &["null", "[1]", "{\"a\": 1}"]),
        ("content-encoding", "the name of an encoding", &["5", "null", "\"\"", "\"a\\\\b\"", "\"ü\"", "[\"gzip\"]"]),
    ] {
        for value in values {
            refused_with(&db, &format!(r#"{{"{name}": {value}}}"#), &format!("the header {name} must be {must}")).await;
        }
    }
    let headers = [
        r#"{"x-delay": 5000}"#,
        r#"{"x-delay": "5000", "x-cache-ttl": 1.5, "x-correlation-id": "", "x-reply-to-topic": "a"}"#,
        r#"{"x-deduplication-header": "a"}"#,
        r#"{"x-deduplication-header": false, "content-encoding": "gzip"}"#,
        r#"{"content-encoding": "deflate, x-zstd"}"#,
        &format!(r#"{{"x-stream-filter-value": "{}"}}"#, "x".repeat(4096)),
    ];
    for headers in headers {
        run(&db, &format!("SELECT outbox.emit('a', '{{}}', headers => '{headers}')")).await;
    }
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, headers.len().to_string());
}

async fn the_first_header_that_is_wrong_is_named(db: Database) {
    refused_with(&db, r#"{"a": 1, "x-delay": null, "x-stream-offset": 1}"#, "the header x-delay must be a number")
        .await;
    refused_with(
        &db,
        r#"{"a": [1], "x-death": {"b": 2}, "x-reply-to-topic": 1}"#,
        "the header x-death is RabbitMQ's own",
    )
    .await;
    let insert = r#"INSERT INTO outbox.events (topic, payload, headers) VALUES ('a', '1', '{"x-mqtt-dup": 1, "x-delay": null}')"#;
    refused(&db, insert, "22023", "the header x-mqtt-dup is RabbitMQ's own").await;
}

async fn a_type_that_rabbitmq_takes_for_encoded_amqp_is_refused(db: Database) {
    let emit = "SELECT outbox.emit('a', '{}', event_type => 'amqp-1.0')";
    refused(&db, emit, "22023", "event_type must not be amqp-1.0").await;
    run(&db, "SELECT outbox.emit('a', '{}', event_type => 'AMQP-1.0')").await;
}

async fn a_correlation_id_that_says_it_is_a_uuid_is_one(db: Database) {
    let message = "correlation_id must have a uuid behind urn:uuid:";
    let emit = |id: &str| format!("SELECT outbox.emit('a', '{{}}', correlation_id => '{id}')");
    let uuid = "urn:uuid:f81d4fae-7dec-11d0-A765-00a0c91e6bf6";
    for broken in [uuid.replace("6bf6", "6bfg"), uuid.replace('-', "0"), uuid.replace("6bf6", "6bü")] {
        refused(&db, &emit(&broken), "22023", message).await;
        let context = format!(
            "SET outbox.correlation_id = '{broken}'; SELECT outbox.emit('a', '{{}}'); RESET outbox.correlation_id"
        );
        refused(&db, &context, "22023", message).await;
        run(&db, "RESET outbox.correlation_id").await;
    }
    for fine in [uuid, "urn:uuid:", "urn:uuid:5", &uuid[9..], "URN:UUID:xxxxxxxx-7dec-11d0-A765-00a0c91e6bf6"] {
        run(&db, &emit(fine)).await;
    }
}

async fn headers_that_only_look_like_those_are_admitted(db: Database) {
    run(
        &db,
        r#"SELECT outbox.emit('a', '{}', headers => '{"X-Death": ["a"], "x-deaths": [1], "x-basic": 1, "xx-death": 1, "x-opt-a": null,
            "x-first-death-reason": 5, "x-shovelled": [1], "x-exchange": 5,
            "a": {"x-death": [1], "content-encoding": 5}, "b": "x-death", "x-amqp-1.0": [], "Content-Encoding": 5}')"#,
    )
    .await;
    assert_eq!(value(&db, "SELECT count(*) FROM outbox.events").await, "1");
}

async fn a_restored_row_keeps_headers_that_are_refused_today(db: Database) {
    run(
        &db,
        r#"INSERT INTO outbox.events (topic, payload, event_type, headers, created_at)
           VALUES ('a', '{}', 'amqp-1.0', '{"x-death": ["a"], "content-encoding": 5}', now() - interval '1 hour')"#,
    )
    .await;
    assert_eq!(value(&db, "SELECT headers ->> 'x-death' FROM outbox.events").await, r#"["a"]"#);
}
