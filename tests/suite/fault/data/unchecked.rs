//! Rows that came into the table past its checks: by a restore without triggers, or by whoever has switched them off.

use harness::{Connection, SOON, Stack, eventually};

use super::{count, ledger};

/// What is wrong, and the columns that say so.
const ROWS: [(&str, &str, &str); 6] = [
    ("topic-too-long", "topic, payload", "repeat('x', 300), '1'"),
    ("headers-no-object", "topic, payload, headers", "'t', '1', '[1]'"),
    ("header-number-beyond-amqp", "topic, payload, headers", r#"'t', '1', '{"n": 1e400}'"#),
    ("header-name-too-long", "topic, payload, headers", "'t', '1', jsonb_build_object(repeat('x', 300), 1)"),
    (
        "headers-too-deep",
        "topic, payload, headers",
        "'t', '1', (repeat('{\"a\":', 500) || '1' || repeat('}', 500))::jsonb",
    ),
    (
        "headers-too-large",
        "topic, payload, headers",
        "'t', '1', (SELECT jsonb_object_agg('h' || i, md5(i::text)) FROM generate_series(1, 10000) i)",
    ),
];

#[tokio::test]
async fn a_row_that_came_in_past_the_checks_and_cannot_be_published_fails_alone() {
    each_fails_alone(&ROWS, 0).await;
}

#[tokio::test]
async fn a_row_without_a_payload_that_came_in_past_the_checks_fails_alone() {
    each_fails_alone(&[("no-payload", "topic", "'t'")], 0).await;
}

#[tokio::test]
async fn a_row_that_came_in_past_the_checks_and_is_rejected_by_the_broker_fails_alone() {
    let rows = [
        ("cc-is-no-list", "topic, payload, headers", r#"'t', '1', '{"CC": "t"}'"#),
        ("bcc-is-no-list", "topic, payload, headers", r#"'t', '1', '{"BCC": 5}'"#),
    ];
    // Each closes the channel, with what is in flight: at most 1000, once in the stream and once from the table.
    each_fails_alone(&rows, rows.len() * 2 * 1000).await;
}

/// Found in the stream, and found in the table.
async fn each_fails_alone(rows: &[(&str, &str, &str)], repeated: usize) {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    let good = "SELECT outbox.emit('t', to_jsonb(i), aggregate_type => 'a', aggregate_id => (i % 7)::text)
                FROM generate_series(1, 100) i;";
    let mut sql = String::new();
    for (kind, columns, values) in rows {
        sql += &format!(
            "ALTER TABLE outbox.events DISABLE TRIGGER USER;
             INSERT INTO outbox.events ({columns}, event_type) VALUES ({values}, '{kind}');
             ALTER TABLE outbox.events ENABLE TRIGGER USER; {good}"
        );
    }
    stack.db.batch_execute(&sql).await.unwrap();
    wait_for_verdicts(&stack.db).await;
    assert!(relay.stop().await.success());
    stack.db.batch_execute(&sql).await.unwrap();
    let _relay = stack.relay().start().await;
    wait_for_verdicts(&stack.db).await;

    for (kind, ..) in rows {
        let failed = format!("event_type = '{kind}' AND status = 'FAILED' AND attempts = 1 AND last_error <> ''");
        assert_eq!(count(&stack.db, &failed).await, 2, "{kind}");
    }
    let good = rows.len() as i64 * 200;
    assert_eq!(count(&stack.db, "event_type IS NULL AND status = 'SENT' AND attempts = 1").await, good);
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
    ledger::check(&stack.db, &[&consumer.ids()], repeated).await;
}

async fn wait_for_verdicts(db: &Connection) {
    eventually("each has its verdict", SOON, async || match count(db, "status = 'PENDING'").await {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
}
