//! What is committed arrives, as it was emitted, and its row says so.

use harness::{SOON, Stack, eventually};
use lapin::types::AMQPValue;

use super::{Row, counts, emit, slot_lag, wait_for_counts, wait_for_status};

#[tokio::test]
async fn a_committed_event_reaches_the_consumer_and_its_row_turns_sent() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;

    let id = emit(&stack.db, r#"'orders.created', '{"total": 12345678901234567890}'"#, &[]).await;

    let delivery = &consumer.wait_for(1).await[0];
    assert_eq!((delivery.id, delivery.routing_key.as_str()), (id, "orders.created"));
    assert_eq!(delivery.body, br#"{"total": 12345678901234567890}"#);
    let row = wait_for_status(&stack.db, id, "SENT").await;
    assert_eq!(row, Row { status: "SENT".into(), attempts: 1, last_error: None, attempted: true, processed: true });
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn every_column_arrives_where_amqp_has_its_place() {
    let stack = Stack::new().await;
    stack.vhost.exchange("billing").await;
    let consumer = stack.vhost.consumer("billing", "#").start().await;
    let _relay = stack.relay().set("application-name", "shop").start().await;

    let id = emit(
        &stack.db,
        r#"topic => 'invoice.paid', payload => '\x0001ff'::bytea, content_type => 'application/x-protobuf',
           event_type => 'InvoicePaid', aggregate_type => 'invoice', aggregate_id => '42', exchange => 'billing',
           correlation_id => 'request-7',
           headers => '{"text": "ä", "int": -7, "float": 1.5, "flag": true, "none": null, "list": [1, "x"],
                        "table": {"a": 1}, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'"#,
        &[],
    )
    .await;
    let created: std::time::SystemTime =
        stack.db.query_one("SELECT created_at FROM outbox.events", &[]).await.unwrap().get(0);

    let delivery = &consumer.wait_for(1).await[0];
    assert_eq!(delivery.body, [0, 1, 255]);
    assert_eq!(delivery.exchange, "billing");
    assert_eq!(delivery.key(), Some(("invoice".into(), "42".into())));
    assert_eq!(delivery.seq(), Some(1));
    let properties = &delivery.properties;
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string);
    assert_eq!(text(properties.message_id()), Some(id.to_string()));
    assert_eq!(text(properties.kind()), Some("InvoicePaid".into()));
    assert_eq!(text(properties.correlation_id()), Some("request-7".into()));
    assert_eq!(text(properties.content_type()), Some("application/x-protobuf".into()));
    assert_eq!(text(properties.app_id()), Some("shop".into()));
    assert_eq!(*properties.delivery_mode(), Some(2));
    let seconds = created.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(*properties.timestamp(), Some(seconds));
    assert_eq!(delivery.text_header("text").as_deref(), Some("ä"));
    assert_eq!(delivery.header("int"), Some(&AMQPValue::LongLongInt(-7)));
    assert_eq!(delivery.header("float"), Some(&AMQPValue::Double(1.5)));
    assert_eq!(delivery.header("flag"), Some(&AMQPValue::Boolean(true)));
    assert_eq!(delivery.header("none"), Some(&AMQPValue::Void));
    assert!(matches!(delivery.header("list"), Some(AMQPValue::FieldArray(list)) if list.as_slice().len() == 2));
    assert!(matches!(delivery.header("table"), Some(AMQPValue::FieldTable(table)) if table.inner().len() == 1));
    assert!(delivery.text_header("traceparent").unwrap().starts_with("00-0af7"));
}

/// Found in the table, and streamed.
#[tokio::test]
async fn a_json_body_arrives_letter_for_letter() {
    const BODIES: [&str; 4] = [
        r#"{"b": 1,  "a": 1e2, "b": 2}"#,
        "[ 1.50,\n\t-0 ]",
        r#"{"x": "\u0000 \ud800 \u00e9 \/", "n": 1e200000}"#,
        "  \"ä\"  ",
    ];
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let emit_each = async || {
        for body in BODIES {
            emit(&stack.db, "'a', $1", &[&body]).await;
        }
    };
    emit_each().await;
    let _relay = stack.relay().start().await;
    emit_each().await;
    let mut bodies: Vec<_> =
        consumer.wait_for(2 * BODIES.len()).await.into_iter().map(|it| String::from_utf8(it.body).unwrap()).collect();
    let mut expected = [BODIES, BODIES].concat();
    bodies.sort();
    expected.sort();
    assert_eq!(bodies, expected);
}

#[tokio::test]
async fn a_message_tells_its_key_unless_the_relay_is_told_to_leave_that_out() {
    let emit = "'t', '{}', aggregate_type => 'order', aggregate_id => '7', headers => '{\"aggregate_type\": \"mine\"}'";
    for (key_headers, expected) in [("true", [Some("order"), Some("7")]), ("false", [Some("mine"), None])] {
        let stack = Stack::new().await;
        let consumer = stack.consumer("#").await;
        let relay = stack.relay().set("key-headers", key_headers).start().await;
        let id = self::emit(&stack.db, emit, &[]).await;
        let got = consumer.wait_for(1).await.remove(0);
        let told = ["aggregate_type", "aggregate_id"].map(|name| got.text_header(name));
        assert_eq!((got.id, got.seq()), (id, Some(1)));
        assert_eq!(told.each_ref().map(Option::as_deref), expected, "key_headers = {key_headers}");
        assert!(relay.stop().await.success());
    }
}

#[tokio::test]
async fn the_header_content_encoding_arrives_as_the_property() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    let zipped = r#"'a', '\x1f8b08'::bytea, content_type => 'application/json', headers => '{"content-encoding": "gzip", "b": 1}'"#;
    emit(&stack.db, zipped, &[]).await;
    // An earlier version took any value for it.
    let earlier = r#"INSERT INTO outbox.events (topic, payload, headers, created_at)
                     VALUES ('a', '{}', '{"content-encoding": 5}', now() - interval '1 hour')"#;
    stack.db.batch_execute(earlier).await.unwrap();
    let deliveries = consumer.wait_for(2).await;
    let encoding = |at: usize| deliveries[at].properties.content_encoding().as_ref().map(ToString::to_string);
    assert_eq!((encoding(0), encoding(1)), (Some("gzip".into()), None));
    assert_eq!(deliveries[0].header("content-encoding"), None);
    assert_eq!(deliveries[0].header("b"), Some(&AMQPValue::LongLongInt(1)));
    assert_eq!(deliveries[1].header("content-encoding"), Some(&AMQPValue::LongLongInt(5)));
}

#[tokio::test]
async fn what_is_rolled_back_never_arrives() {
    let mut stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;

    let transaction = stack.db.transaction().await.unwrap();
    transaction.execute("SELECT outbox.emit('rolled.back', '{}'::jsonb)", &[]).await.unwrap();
    transaction.rollback().await.unwrap();
    stack
        .db
        .batch_execute(
            "BEGIN; SELECT outbox.emit('kept.before', '{}'::jsonb);
             SAVEPOINT s; SELECT outbox.emit('lost', '{}'::jsonb); ROLLBACK TO s;
             SELECT outbox.emit('kept.after', '{}'::jsonb); COMMIT",
        )
        .await
        .unwrap();

    let topics: Vec<_> = consumer.wait_for(2).await.into_iter().map(|delivery| delivery.routing_key).collect();
    wait_for_counts(&stack.db, (0, 2, 0), SOON).await;
    assert_eq!(topics, ["kept.before", "kept.after"]);
    assert_eq!(consumer.count(), 2);
}

#[tokio::test]
async fn nothing_is_published_before_its_commit() {
    let mut stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    let other = stack.db.connect().await;

    let open = stack.db.transaction().await.unwrap();
    open.execute("SELECT outbox.emit('first.emitted', '{}'::jsonb)", &[]).await.unwrap();
    emit(&other, "'first.committed', '{}'::jsonb", &[]).await;
    consumer.wait_for(1).await;
    open.commit().await.unwrap();

    let topics: Vec<_> = consumer.wait_for(2).await.into_iter().map(|delivery| delivery.routing_key).collect();
    assert_eq!(topics, ["first.committed", "first.emitted"]);
}

#[tokio::test]
async fn events_emitted_while_no_relay_runs_are_delivered_at_its_start() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    stack
        .db
        .batch_execute("SELECT outbox.emit('before.slot', to_jsonb(i)) FROM generate_series(1, 100) i")
        .await
        .unwrap();

    let relay = stack.relay().start().await;
    consumer.wait_for(100).await;
    wait_for_counts(&stack.db, (0, 100, 0), SOON).await;
    relay.kill().await;
    stack
        .db
        .batch_execute("SELECT outbox.emit('behind.slot', to_jsonb(i)) FROM generate_series(1, 100) i")
        .await
        .unwrap();
    let _relay = stack.relay().start().await;
    let deliveries = consumer.wait_for(200).await;
    wait_for_counts(&stack.db, (0, 200, 0), SOON).await;
    let seqs: Vec<_> = deliveries.iter().map(|delivery| delivery.seq().unwrap()).collect();
    assert_eq!(seqs, (1..=200).collect::<Vec<_>>(), "each once: what the scan found, the stream does not repeat");
}

#[tokio::test]
async fn a_plain_insert_is_delivered_like_an_emit() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    stack
        .db
        .batch_execute(r#"INSERT INTO outbox.events (topic, payload) VALUES ('orm.saved', '{"a": 1}')"#)
        .await
        .unwrap();
    assert_eq!(consumer.wait_for(1).await[0].routing_key, "orm.saved");
    wait_for_counts(&stack.db, (0, 1, 0), SOON).await;
}

#[tokio::test]
async fn on_an_idle_server_the_slot_holds_nothing_back() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    emit(&stack.db, "'a', '{}'::jsonb", &[]).await;
    consumer.wait_for(1).await;
    wait_for_counts(&stack.db, (0, 1, 0), SOON).await;
    // Other tables' traffic, which the stream does not carry, must not pin the log either.
    stack.db.batch_execute("CREATE TABLE other AS SELECT generate_series(1, 100000) AS i").await.unwrap();
    eventually("the slot's lag is gone", SOON, async || match slot_lag(&stack).await {
        // A checkpoint or a snapshot record of the shared server can come at any time.
        0..16_384 => Ok(()),
        lag => Err(lag),
    })
    .await;
    assert_eq!(counts(&stack.db).await, (0, 1, 0));
}
