use harness::{Kafka, KafkaRecord, SOON, eventually};

use super::{Sink, assert_all_in_order, emit, number, private, run, shared, wait_for_counts};

#[tokio::test]
async fn an_event_reaches_its_topic_with_key_headers_and_body_as_they_were_emitted() {
    let Some(kafka) = shared().await else { return };
    let (topic, named) = (kafka.topic(3, &[]).await, kafka.topic(1, &[]).await);
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay().start().await;
    let emit = format!(
        r#"SELECT outbox.emit('{topic}', '{{"a": 1.50}}'::json, aggregate_type => 'order', aggregate_id => '42',
               event_type => 'OrderPlaced', correlation_id => 'c-7',
               headers => '{{"tenant": "blue", "n": 7, "id": "forged", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}}');
           INSERT INTO outbox.events (topic, exchange, payload) VALUES ('ignored', '{named}', '[]')"#
    );
    run(&sink.db, &emit).await;
    wait_for_counts(&sink.db, (0, 2, 0), SOON).await;
    let records = kafka.records(&topic).await;
    let record = &records[0];
    assert_eq!(
        (records.len(), record.key.as_deref(), record.value.as_deref()),
        (1, Some(&b"42"[..]), Some(&br#"{"a": 1.50}"#[..]))
    );
    let id: String =
        sink.db.query_one("SELECT id::text FROM outbox.events WHERE topic <> 'ignored'", &[]).await.unwrap().get(0);
    for (name, value) in [
        ("id", id.as_str()),
        ("type", "OrderPlaced"),
        ("content-type", "application/json"),
        ("correlation_id", "c-7"),
        ("aggregate_type", "order"),
        ("tenant", "blue"),
        ("n", "7"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"),
    ] {
        assert_eq!(record.header(name), Some(value), "{name}: {:?}", record.headers);
    }
    assert!(record.header("x-outbox-seq").is_some() && record.header("time").is_some());
    assert_eq!(record.header("x-outbox-replay"), None);
    run(&sink.db, "SELECT outbox.replay(id) FROM outbox.events WHERE topic <> 'ignored'").await;
    wait_for_counts(&sink.db, (0, 2, 0), SOON).await;
    let again = kafka.records(&topic).await;
    assert_eq!(again.last().unwrap().header("x-outbox-replay"), Some("1"));
    assert_eq!(again.last().unwrap().header("id"), Some(id.as_str()));
    let record = &kafka.records(&named).await[0];
    assert_eq!((record.key.as_deref(), record.value.as_deref()), (None, Some(&b"[]"[..])));
}

#[tokio::test]
async fn with_envelope_debezium_key_id_and_the_events_headers_are_json_and_there_are_no_others() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay().set("envelope", "debezium").start().await;
    let emit = format!(
        r#"SELECT outbox.emit('{topic}', '{{"a": 1}}'::json, aggregate_type => 'order', aggregate_id => 'a"b', event_type => 't',
               headers => '{{"eventType": "moved", "n": 7, "id": "forged"}}')"#
    );
    run(&sink.db, &emit).await;
    wait_for_counts(&sink.db, (0, 1, 0), SOON).await;
    let record = &kafka.records(&topic).await[0];
    assert_eq!((record.key.as_deref(), record.value.as_deref()), (Some(&br#""a\"b""#[..]), Some(&br#"{"a": 1}"#[..])));
    let id: String = sink.db.query_one("SELECT id::text FROM outbox.events", &[]).await.unwrap().get(0);
    let headers = [("id", format!("\"{id}\"")), ("eventType", "\"moved\"".to_owned()), ("n", "7".to_owned())];
    let expected: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let found: Vec<_> =
        record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref().unwrap_or_default())).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_events_of_a_key_arrive_in_their_order_although_many_are_in_flight() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(4, &[]).await;
    let sink = Sink::new(kafka).await;
    let relay = sink.relay().start().await;
    emit(&sink.db, &topic, 1, 20_000).await;
    wait_for_counts(&sink.db, (0, 20_000, 0), SOON).await;
    let records = kafka.records(&topic).await;
    assert_eq!(records.len(), 20_000);
    assert_all_in_order(&records, 20_000);
    assert!(relay.stop().await.success());
}

#[tokio::test]
async fn a_topic_that_is_made_later_gets_its_events_if_unroutable_is_retry() {
    let Some(kafka) = shared().await else { return };
    let sink = Sink::new(kafka).await;
    let topic = format!("{}-later", sink.db.name());
    let _relay = sink.relay().set("unroutable", "retry").set("retry-max", "1s").start().await;
    emit(&sink.db, &topic, 1, 30).await;
    eventually("the first attempts were refused", SOON, async || {
        let sql = "SELECT count(*) FROM outbox.events WHERE status = 'PENDING' AND last_error LIKE '3 UNKNOWN_TOPIC%'";
        let refused: i64 = sink.db.query_one(sql, &[]).await.unwrap().get(0);
        if refused >= 10 { Ok(()) } else { Err(refused) }
    })
    .await;
    kafka.create_topic(&topic, 2, &[]).await;
    wait_for_counts(&sink.db, (0, 30, 0), SOON).await;
    assert_all_in_order(&kafka.records(&topic).await, 30);
}

#[tokio::test]
async fn a_topic_that_grows_under_load_keeps_the_order_of_each_key() {
    let Some(builder) = private() else { return };
    let kafka: Kafka = builder.start().await;
    let topic = kafka.topic(2, &[]).await;
    let sink = Sink::new(&kafka).await;
    let _relay = sink.relay().start().await;
    emit(&sink.db, &topic, -199, 200).await;
    wait_for_counts(&sink.db, (0, 200, 0), SOON).await;
    run(&sink.db, "DELETE FROM outbox.events").await;
    let before = kafka.records(&topic).await.len();
    kafka.grow_topic(&topic, 5).await;
    let mut emitted = 0;
    eventually("a new partition is used", SOON, async || {
        emit(&sink.db, &topic, emitted + 1, 200).await;
        emitted += 200;
        let records = kafka.records(&topic).await;
        if records.iter().any(|record| record.partition > 1) { Ok(()) } else { Err(records.len()) }
    })
    .await;
    wait_for_counts(&sink.db, (0, emitted, 0), SOON).await;
    // Partitions have no order between them, but the records' times say which came first.
    let mut records = kafka.records(&topic).await;
    assert_eq!(i64::try_from(records.len() - before).unwrap(), emitted);
    records.sort_by_key(number);
    for key in 0..10 {
        let of_key = |record: &&KafkaRecord| number(record) % 10 == key;
        let times: Vec<i64> = records.iter().filter(of_key).map(|record| record.timestamp).collect();
        assert!(times.is_sorted(), "k{key}: {times:?}");
    }
}
