//! Headers that RabbitMQ crashes over, in rows that came into the table past its checks or before there were any.

use harness::{Consumer, Stack};
use serde_json::json;

use super::{LONG, count, wait_until_none_is_pending};

/// Where each event goes: to a queue that dead-letters at once, and to a stream.
const TOPICS: [&str; 3] = ["classic", "quorum", "stream"];

/// Names and values, each of which has crashed a queue, a connection or a consumer on RabbitMQ 3.10 or 4.0, or one of
/// their kind.
fn hostile() -> Vec<(&'static str, String)> {
    let entry = |queue: &str, count: &str| {
        format!(r#"[{{"queue": "{queue}", "reason": "expired", "count": {count}, "exchange": "", "routing-keys": 5}}]"#)
    };
    let long = format!("\"{}\"", "x".repeat(5000));
    let mut hostile: Vec<(&str, String)> = vec![
        ("x-death", r#"["a"]"#.into()),
        ("x-death", "[1]".into()),
        ("x-death", r#"[{"a": 1}, "b"]"#.into()),
        ("x-death", "[[], [[]]]".into()),
        ("x-death", entry("classic", r#""7""#)),
        ("x-death", entry("quorum", "null")),
        ("x-invalid-headers", r#"{"x-shovelled": 5}"#.into()),
        ("x-stream-filter-value", "5".into()),
        ("x-stream-filter-value", long.clone()),
        ("x-delay", r#""soon""#.into()),
        // A name twice, which AMQP forbids and json keeps.
        ("a", r#"1, "a": {"b": 1, "b": [2]}"#.into()),
        ("CC", r#"["b"], "CC": []"#.into()),
        ("x-deduplication-header", r#"5, "x-deduplication-header": [1]"#.into()),
        ("content-encoding", r#""gzip", "content-encoding": 5"#.into()),
    ];
    for name in [
        "x-first-death-reason",
        "x-last-death-queue",
        "x-basic-type",
        "x-basic-priority",
        "x-basic-expiration",
        "x-basic-delivery-mode",
        "x-amqp-1.0-properties",
        "x-amqp-1.0-app-properties",
        "x-amqp-1.0-message-annotations",
        "x-amqp-1.0-footer",
        "x-exchange",
        "x-routing-key",
        "x-delivery-count",
        "x-stream-offset",
        "x-received-from",
        "x-shovelled",
        "x-mqtt-publish-qos",
        "x-mqtt-dup",
        "x-reply-to-topic",
        "x-correlation-id",
        "x-deduplication-header",
        "x-cache-ttl",
        "content-encoding",
    ] {
        hostile.extend(["5", r#""a""#, "[1]", r#"[{"a": 1}]"#, "null", &long].map(|value| (name, value.to_owned())));
    }
    hostile
}

async fn queues(stack: &Stack) -> [Consumer; 2] {
    let (vhost, name) = (&stack.vhost, stack.vhost.name());
    vhost.exchange("outbox").await;
    let dead = vhost.consumer("dead", "#").start().await;
    for (queue, arguments) in [
        ("classic", json!({ "x-message-ttl": 1, "x-dead-letter-exchange": "dead" })),
        ("quorum", json!({ "x-queue-type": "quorum", "x-message-ttl": 1, "x-dead-letter-exchange": "dead" })),
        ("stream", json!({ "x-queue-type": "stream" })),
    ] {
        let declare = json!({ "durable": true, "arguments": arguments });
        vhost.api("PUT", &format!("/api/queues/{name}/{queue}"), Some(&declare)).await;
        let binding = json!({ "routing_key": queue });
        vhost.api("POST", &format!("/api/bindings/{name}/e/outbox/q/{queue}"), Some(&binding)).await;
    }
    let stream = vhost.consumer("outbox", "stream").existing_queue("stream").prefetch(1000).start().await;
    [dead, stream]
}

#[tokio::test]
async fn no_header_of_an_event_takes_a_queue_a_connection_or_a_consumer_down() {
    let stack = Stack::new().await;
    let [dead, stream] = queues(&stack).await;
    let mut sql = "ALTER TABLE outbox.events DISABLE TRIGGER USER;".to_owned();
    for topic in TOPICS {
        for (name, value) in hostile() {
            sql += &format!(
                "INSERT INTO outbox.events (topic, payload, headers) VALUES ('{topic}', '1', '{{\"{name}\": {value}, \"fine\": 1}}');"
            );
        }
        sql += &format!(
            "INSERT INTO outbox.events (topic, payload, event_type) VALUES ('{topic}', '1', 'amqp-1.0');
             INSERT INTO outbox.events (topic, payload, correlation_id) VALUES ('{topic}', '1', 'urn:uuid:' || repeat('x', 36));"
        );
    }
    sql += "ALTER TABLE outbox.events ENABLE TRIGGER USER;";
    for topic in TOPICS {
        sql += &format!("SELECT outbox.emit('{topic}', '2') FROM generate_series(1, 10);");
    }
    stack.db.batch_execute(&sql).await.unwrap();
    let each = hostile().len() + 12;

    let relay = stack.relay().start().await;
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, (TOPICS.len() * each) as i64);
    dead.wait_for_events(2 * each, LONG).await;
    stream.wait_for_events(each, LONG).await;
    let lost =
        relay.log_lines().into_iter().filter(|line| line.contains("no connection to the broker")).collect::<Vec<_>>();
    assert!(lost.is_empty(), "{lost:?}");
    // What does no harm is there.
    let headers = stream.deliveries().iter().filter(|delivery| delivery.header("fine").is_some()).count();
    assert_eq!(headers, hostile().len());
}
