//! Keys that wait for one of their events: while it is retried, and after it has failed where that is asked for.

use std::time::Duration;

use harness::{Relay, SOON, Stack, eventually};
use uuid::Uuid;

use super::{FullQueue, emit, row, wait_for_counts, wait_for_status};

/// One event that cannot be delivered, three behind it in its key, and one of another key.
async fn failed_and_waiting(stack: &Stack) -> Uuid {
    let keyed = |topic: &str, n: i32, key: &str| {
        format!("'{topic}', to_jsonb({n}), aggregate_type => 'order', aggregate_id => '{key}'")
    };
    let head = emit(&stack.db, &keyed("unbound", 0, "k"), &[]).await;
    for n in 1..4 {
        emit(&stack.db, &keyed("bound", n, "k"), &[]).await;
    }
    emit(&stack.db, &keyed("bound", 100, "other"), &[]).await;
    wait_for_status(&stack.db, head, "FAILED").await;
    head
}

async fn holding(stack: &Stack) -> Relay {
    stack.relay().set("after-failed", "hold").start().await
}

#[tokio::test]
async fn a_key_goes_on_after_a_failed_event_unless_told_otherwise() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("bound").await;
    let _relay = stack.relay().start().await;
    let head = failed_and_waiting(&stack).await;
    wait_for_counts(&stack.db, (0, 4, 1), SOON).await;
    assert_eq!(consumer.wait_for(4).await.len(), 4);
    assert_eq!(row(&stack.db, head).await.attempts, 1);
}

#[tokio::test]
async fn a_key_that_is_held_after_a_failure_goes_on_behind_the_replayed_event() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("bound").await;
    let relay = holding(&stack).await;
    let head = failed_and_waiting(&stack).await;
    wait_for_counts(&stack.db, (3, 1, 1), SOON).await;
    // The hold is in the table: it outlives the relay.
    relay.kill().await;
    let _relay = holding(&stack).await;
    emit(&stack.db, "'bound', '200', aggregate_id => 'third'", &[]).await;
    wait_for_counts(&stack.db, (3, 2, 1), SOON).await;

    consumer.bind("unbound").await;
    stack.db.execute("SELECT outbox.replay($1)", &[&head]).await.unwrap();
    wait_for_counts(&stack.db, (0, 6, 0), SOON).await;
    let arrived: Vec<_> = consumer.wait_for(6).await.iter().map(|delivery| delivery.json()).collect();
    assert_eq!(arrived[2..], [0, 1, 2, 3]);
}

#[tokio::test]
async fn a_key_that_is_held_after_a_failure_goes_on_without_the_event_when_it_is_released() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("bound").await;
    let _relay = holding(&stack).await;
    let head = failed_and_waiting(&stack).await;
    wait_for_counts(&stack.db, (3, 1, 1), SOON).await;
    // Later ones join those that wait.
    emit(&stack.db, "'bound', '4', aggregate_type => 'order', aggregate_id => 'k'", &[]).await;
    emit(&stack.db, "'bound', '200', aggregate_id => 'third'", &[]).await;
    wait_for_counts(&stack.db, (4, 2, 1), SOON).await;

    stack.db.execute("SELECT outbox.release($1)", &[&head]).await.unwrap();
    wait_for_counts(&stack.db, (0, 6, 1), SOON).await;
    let arrived: Vec<_> = consumer.wait_for(6).await.iter().map(|delivery| delivery.json()).collect();
    assert_eq!(arrived[2..], [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_retried_event_keeps_its_time_and_its_count_across_a_restart_of_the_relay() {
    let stack = Stack::new().await;
    let full = FullQueue::bind(&stack.vhost, "full").await;
    let consumer = stack.consumer("bound").await;
    let settings = || stack.relay().set("retry-base", "1500ms").set("max-attempts", "1000");
    let relay = settings().start().await;
    let keyed = |topic: &str, n: i32| format!("'{topic}', to_jsonb({n}), aggregate_id => 'k'");
    let head = emit(&stack.db, &keyed("full", 0), &[]).await;
    for n in 1..4 {
        emit(&stack.db, &keyed("bound", n), &[]).await;
    }
    // Where others are taken, a refusal counts.
    emit(&stack.db, "'bound', '50', aggregate_id => 'other'", &[]).await;
    eventually("the first attempt is in the row", SOON, async || match row(&stack.db, head).await {
        row if row.attempts == 1 => Ok(()),
        row => Err(row),
    })
    .await;
    relay.kill().await;
    let _relay = settings().start().await;
    emit(&stack.db, "'bound', '100', aggregate_id => 'other'", &[]).await;
    assert_eq!(consumer.wait_for(2).await[1].json(), 100, "the key waits although another relay has begun");
    full.make_room().await;
    let row = wait_for_status(&stack.db, head, "SENT").await;
    assert!(row.attempts >= 2, "{row:?}");
    let arrived: Vec<_> = consumer.wait_for(5).await.iter().map(|delivery| delivery.json()).collect();
    assert_eq!(arrived, [50, 100, 1, 2, 3]);
}

#[tokio::test]
async fn an_event_that_is_retried_for_long_pins_no_log() {
    let stack = Stack::new().await;
    let _full = FullQueue::bind(&stack.vhost, "full").await;
    let _relay = stack.relay().set("retry-base", "1h").set("retry-max", "1h").start().await;
    let id = emit(&stack.db, "'full', '0', aggregate_id => 'k'", &[]).await;
    let lsn: String = stack.db.query_one("SELECT pg_current_wal_insert_lsn()::text", &[]).await.unwrap().get(0);
    let acknowledged = "SELECT confirmed_flush_lsn >= $2::text::pg_lsn FROM pg_replication_slots WHERE slot_name = $1";
    eventually("its commit is acknowledged", Duration::from_secs(30), async || {
        let moved: bool = stack.db.query_one(acknowledged, &[&stack.db.name(), &lsn]).await.unwrap().get(0);
        if moved { Ok(()) } else { Err(row(&stack.db, id).await) }
    })
    .await;
    assert_eq!(row(&stack.db, id).await.status, "PENDING");
}

#[tokio::test]
async fn a_key_that_is_released_again_and_again_goes_on_in_order_though_its_events_are_in_flight_together() {
    const EVENTS: i64 = 6000;
    let stack = Stack::new().await;
    let consumer = stack.consumer("bound").await;
    let relay = stack.relay().set("after-failed", "hold").set("ordering", "pipelined").set("in-flight", "100");
    let _relay = relay.start().await;
    // Each key from one statement; one event of 50 cannot be delivered.
    let emit = "SELECT outbox.emit(CASE WHEN n % 50 = 7 THEN 'unbound' ELSE 'bound' END, jsonb_build_object('n', n),
                    aggregate_id => (n % 10)::text) FROM generate_series(1, $1::bigint) AS n";
    stack.db.query(emit, &[&EVENTS]).await.unwrap();
    let release = "SELECT count(outbox.release(id)) FROM outbox.events WHERE holds_key AND status = 'FAILED'";
    eventually("nothing is pending", Duration::from_secs(120), async || {
        stack.db.query(release, &[]).await.unwrap();
        match super::counts(&stack.db).await {
            (0, ..) => Ok(()),
            counts => Err(counts),
        }
    })
    .await;
    let mut last = std::collections::HashMap::new();
    for delivery in consumer.wait_for((EVENTS - EVENTS / 50) as usize).await {
        let n = delivery.json()["n"].as_i64().unwrap();
        let before = last.insert(n % 10, n);
        assert!(before.is_none_or(|before| before < n), "{n} came after {before:?}");
    }
}
