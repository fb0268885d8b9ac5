//! Rows disappear while their events are under way.

use std::time::Duration;

use harness::{Stack, Vhost, eventually};
use serde_json::json;
use uuid::Uuid;

use super::{LATER, emit, number, relay, run, wait_until, wait_until_sent};

#[tokio::test]
async fn a_table_that_is_truncated_under_way_stops_nothing() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let flood = "SELECT count(outbox.emit('flood', jsonb_build_object('n', n), aggregate_type => 'a', aggregate_id => 'key ' || n % 20))
                 FROM generate_series(1, 10000) n";
    for (round, remove) in (1..).zip(["TRUNCATE outbox.events", "DELETE FROM outbox.events"]) {
        run(&stack.db, flood).await;
        let before = consumer.count();
        consumer.wait_for(before + 200).await;
        run(&stack.db, remove).await;
        // The same keys: none may wait for an event that is no more.
        for n in 0..20 {
            emit(&stack.db, &format!("key {n}"), 20_000 * round).await;
        }
        wait_until_sent(&stack.db, 20).await;
        run(&stack.db, "DELETE FROM outbox.events").await;
    }
    eventually("every event that was left is delivered", LATER, async || {
        let last = consumer.deliveries().iter().filter(|d| d.json()["n"].as_i64() >= Some(20_000)).count();
        if last == 40 { Ok(()) } else { Err(last) }
    })
    .await;
    assert!(!relay.log_text().contains("the session ended"), "a deletion is no reason to give up a session");
}

/// An event that is tried again and again, and a later one of its key, whose id is returned.
async fn one_behind_a_refused_event(stack: &Stack) -> Uuid {
    refuse_everything(&stack.vhost, "full").await;
    run(&stack.db, "SELECT outbox.emit('full', '{}'::jsonb, aggregate_type => 'a', aggregate_id => 'k')").await;
    let id = emit(&stack.db, "k", 2).await;
    wait_until(&stack.db, "it was refused", "(SELECT max(last_attempted_at) FROM outbox.events) IS NOT NULL").await;
    id
}

#[tokio::test]
async fn a_retried_event_whose_row_is_deleted_lets_its_key_go_on() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("t").await;
    let _relay =
        relay(&stack).set("retry-base", "50ms").set("retry-max", "1s").set("max-attempts", "1000").start().await;
    let id = one_behind_a_refused_event(&stack).await;
    assert_eq!(consumer.count(), 0, "its key waits");

    run(&stack.db, "DELETE FROM outbox.events WHERE topic = 'full'").await;
    wait_until_sent(&stack.db, 1).await;
    assert_eq!(consumer.wait_for(1).await[0].id, id);
}

#[tokio::test]
async fn a_retried_event_that_is_given_up_by_hand_lets_its_key_go_on() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("t").await;
    let _relay =
        relay(&stack).set("retry-base", "50ms").set("retry-max", "1s").set("max-attempts", "1000").start().await;
    let id = one_behind_a_refused_event(&stack).await;

    run(&stack.db, "UPDATE outbox.events SET status = 'FAILED', last_error = 'given up' WHERE topic = 'full'").await;
    assert_eq!(consumer.wait_for_within(1, Duration::from_secs(20)).await[0].id, id);
    let failed = "(SELECT count(*) FROM outbox.events WHERE status = 'FAILED' AND last_error = 'given up')";
    assert_eq!(number(&stack.db, failed).await, 1, "the row stays as it was set");
}

/// Binds a queue that is full and nacks every publish.
async fn refuse_everything(vhost: &Vhost, topic: &str) {
    let name = vhost.name();
    let queue = json!({ "durable": true, "arguments": { "x-max-length": 1, "x-overflow": "reject-publish" } });
    vhost.api("PUT", &format!("/api/queues/{name}/{topic}"), Some(&queue)).await;
    let binding = json!({ "routing_key": topic });
    vhost.api("POST", &format!("/api/bindings/{name}/e/outbox/q/{topic}"), Some(&binding)).await;
    let message = json!({ "routing_key": topic, "payload": "", "payload_encoding": "string", "properties": {} });
    vhost.api("POST", &format!("/api/exchanges/{name}/outbox/publish"), Some(&message)).await;
}
