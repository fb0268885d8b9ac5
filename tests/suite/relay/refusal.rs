//! The broker's answers about one message, and what they do to that event and to no other.

use std::time::{Duration, Instant};

use harness::{SOON, Stack};
use uuid::Uuid;

use super::{emit, wait_for_counts, wait_for_status};

#[tokio::test]
async fn an_unroutable_event_fails_at_once_with_the_brokers_code_and_text() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer("bound").await;
    let relay = stack.relay().start().await;
    let id = emit(
        &stack.db,
        "'unbound', '{}'::jsonb, aggregate_type => 'order', aggregate_id => '7', correlation_id => 'c-9'",
        &[],
    )
    .await;
    let row = wait_for_status(&stack.db, id, "FAILED").await;
    assert_eq!((row.attempts, row.last_error.as_deref(), row.processed), (1, Some("312 NO_ROUTE"), true));
    let line = relay.wait_for_log(&id.to_string()).await;
    assert!(line.contains("312 NO_ROUTE") && line.contains("c-9") && line.contains("key=\"7\""), "{line}");
}

#[tokio::test]
async fn among_thousands_in_flight_exactly_the_unroutable_ones_fail() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("bound").await;
    let _relay = stack.relay().start().await;
    stack
        .db
        .batch_execute(
            "SELECT outbox.emit(CASE WHEN i % 2 = 0 THEN 'bound' ELSE 'unbound' END, to_jsonb(i)) FROM generate_series(1, 10000) i",
        )
        .await
        .unwrap();
    wait_for_counts(&stack.db, (0, 5000, 5000), SOON).await;
    let sql = "SELECT count(*) FROM outbox.events WHERE (status = 'SENT') <> (topic = 'bound')";
    let wrong: i64 = stack.db.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!((wrong, consumer.wait_for(5000).await.len()), (0, 5000));
}

#[tokio::test]
async fn an_unroutable_event_is_retried_where_that_is_asked_for() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("bound").await;
    let _relay = stack
        .relay()
        .set("unroutable", "retry")
        .set("retry-base", "20ms")
        .set("retry-max", "50ms")
        .set("max-attempts", "1000")
        .start()
        .await;
    let id = emit(&stack.db, "'unbound', '{}'::jsonb", &[]).await;
    let row = harness::eventually("three attempts are in the row", SOON, async || {
        let row = super::row(&stack.db, id).await;
        if row.attempts >= 3 { Ok(row) } else { Err(row) }
    })
    .await;
    assert_eq!(
        (row.status.as_str(), row.last_error.as_deref(), row.attempted),
        ("PENDING", Some("312 NO_ROUTE"), true)
    );
    consumer.bind("unbound").await;
    assert_eq!(wait_for_status(&stack.db, id, "SENT").await.last_error, None);
}

#[tokio::test]
async fn unroutable_events_are_summed_by_topic_and_none_is_left_out_of_the_sum() {
    let stack = Stack::new().await;
    let relay = stack.relay().start().await;
    let sql = "SELECT outbox.emit('nobody.' || i % 3, to_jsonb(i)) FROM generate_series(1, 900) i";
    stack.db.batch_execute(sql).await.unwrap();
    wait_for_counts(&stack.db, (0, 0, 900), SOON).await;
    assert!(relay.stop().await.success());
    let log = relay.log_text();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("not delivered")).collect();
    for topic in ["nobody.0", "nobody.1", "nobody.2"] {
        let of_topic: Vec<_> = lines.iter().filter(|line| line.contains(topic)).collect();
        let count = |line: &str| line.split("count=").nth(1)?.split_whitespace().next()?.parse::<u32>().ok();
        let told: u32 = of_topic.iter().map(|line| count(line).unwrap_or(1)).sum();
        assert!(told == 300 && of_topic.len() <= 20, "{told} of {topic} in {} lines", of_topic.len());
        assert!(of_topic.iter().all(|line| line.contains("312 NO_ROUTE")), "{of_topic:?}");
    }
}

#[tokio::test]
async fn a_thousand_unroutable_events_of_a_topic_are_one_with_its_id_and_a_count_in_each_interval() {
    const INTERVAL: Duration = Duration::from_secs(10);
    let stack = Stack::new().await;
    let relay = stack.relay().start().await;
    let started = Instant::now();
    stack.db.batch_execute("SELECT outbox.emit('nobody', to_jsonb(i)) FROM generate_series(1, 1000) i").await.unwrap();
    wait_for_counts(&stack.db, (0, 0, 1000), SOON).await;
    assert!(relay.stop().await.success());
    let intervals = started.elapsed().div_duration_f64(INTERVAL).ceil() as usize;

    let lines: Vec<String> = relay.log_lines().into_iter().filter(|line| line.contains("not delivered")).collect();
    let row = stack.db.query_one("SELECT id FROM outbox.events ORDER BY seq LIMIT 1", &[]).await.unwrap();
    assert!(lines[0].contains(&format!("event={}", row.get::<_, Uuid>(0))), "{lines:?}");
    let (named, counted): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.contains("event="));
    assert!(named.len() <= intervals && counted.len() <= intervals, "{intervals} intervals: {lines:?}");
    let count = |line: &&String| line.split("count=").nth(1)?.split_whitespace().next()?.parse::<usize>().ok();
    let told: usize = counted.iter().filter_map(count).sum();
    assert_eq!(named.len() + told, 1000, "{lines:?}");
}

#[tokio::test]
async fn a_missing_exchange_fails_that_event_alone() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    stack
        .db
        .batch_execute(
            "SELECT outbox.emit('t', to_jsonb(i), exchange => CASE WHEN i % 500 = 250 THEN 'no-such-exchange' END,
                                aggregate_type => 'a', aggregate_id => (i % 10)::text)
             FROM generate_series(1, 2000) i",
        )
        .await
        .unwrap();
    wait_for_counts(&stack.db, (0, 1996, 4), SOON).await;
    let sql = "SELECT DISTINCT last_error FROM outbox.events WHERE exchange IS NOT NULL AND status = 'FAILED'";
    let error: String = stack.db.query_one(sql, &[]).await.unwrap().get(0);
    assert!(error.starts_with("404 NOT_FOUND - no exchange 'no-such-exchange'"), "{error}");
    assert_eq!(consumer.wait_for_events(1996, SOON).await.len(), 1996);
}
