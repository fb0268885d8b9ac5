//! Events with a time of their own.

use std::time::{Duration, SystemTime};

use harness::{SOON, Stack, eventually};

use super::{emit, wait_for_counts};

#[tokio::test]
async fn a_deferred_event_is_held_and_then_sent_on_time() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;

    let later =
        emit(&stack.db, "'later', '{}'::jsonb, available_at => clock_timestamp() + interval '2 seconds'", &[]).await;
    let due: SystemTime =
        stack.db.query_one("SELECT available_at FROM outbox.events WHERE id = $1", &[&later]).await.unwrap().get(0);
    let now = emit(&stack.db, "'now', '{}'::jsonb", &[]).await;

    let deliveries = consumer.wait_for(2).await;
    assert_eq!([deliveries[0].id, deliveries[1].id], [now, later]);
    assert!(deliveries[1].received >= due, "not before its time");
    // Not a measurement: only that it was a timer, and no poll of some seconds, that woke the relay.
    assert!(deliveries[1].since(due) < Duration::from_secs(1), "{:?} late", deliveries[1].since(due));
    wait_for_counts(&stack.db, (0, 2, 0), SOON).await;
}

#[tokio::test]
async fn deferred_events_that_came_due_while_no_relay_ran_are_sent_at_its_start_in_the_order_of_their_times() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    stack
        .db
        .batch_execute(
            "SELECT outbox.emit('t', to_jsonb(i), available_at => now() + (600 - i) * interval '1 ms')
             FROM generate_series(1, 500) i",
        )
        .await
        .unwrap();
    eventually("all are due by the database's clock", SOON, async || {
        let sql = "SELECT count(*) FROM outbox.events WHERE available_at > clock_timestamp()";
        let left: i64 = stack.db.query_one(sql, &[]).await.unwrap().get(0);
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;

    let _relay = stack.relay().start().await;
    let arrived: Vec<_> = consumer.wait_for(500).await.iter().map(|delivery| delivery.json()).collect();
    assert!(arrived == (1..=500).rev().collect::<Vec<_>>(), "{arrived:?}");
    wait_for_counts(&stack.db, (0, 500, 0), SOON).await;
}

#[tokio::test]
async fn deferred_events_that_come_due_together_and_do_not_fit_in_memory_are_all_sent() {
    let stack = Stack::new().await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let _relay = stack.relay().set("max-bytes", "1MiB").start().await;
    stack
        .db
        .batch_execute(
            "SELECT outbox.emit('t', jsonb_build_object('text', repeat('x', 20000)), aggregate_type => 'a',
                                aggregate_id => (i % 3)::text, available_at => now() + interval '1 second')
             FROM generate_series(1, 400) i",
        )
        .await
        .unwrap();
    consumer.wait_for(400).await;
    wait_for_counts(&stack.db, (0, 400, 0), SOON).await;
    assert_eq!(consumer.count(), 400);
}
