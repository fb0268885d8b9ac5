//! The broker says no to one message, and the others go on.

use harness::{Postgres, Stack, seed};
use serde_json::json;
use uuid::Uuid;

use super::{
    DRAINED, IN_FLIGHT, check, count,
    load::{Emitted, Load},
    node::{MAX_MESSAGE_BYTES, node},
    queue, relay, wait_for_rows,
};

const EVENTS: i32 = 2000;
const CULPRITS_OF_A_KIND: usize = 3;

#[tokio::test]
async fn messages_that_close_the_channel_fail_alone_among_hundreds_in_flight() {
    let mut rng = seed::rng("messages_that_close_the_channel_fail_alone_among_hundreds_in_flight");
    let node = node().await;
    let stack = Stack::on(Postgres::shared().await, &node).await;
    let consumer = stack.consumer("#").await;
    // So that hundreds are in flight when the channel closes, of each key a few.
    let _relay = relay(&stack).set("ordering", "pipelined").start().await;

    let mut numbers: Vec<i32> = (0..EVENTS).collect();
    rng.shuffle(&mut numbers);
    let (large, rest) = numbers.split_at(CULPRITS_OF_A_KIND);
    let nowhere = &rest[..CULPRITS_OF_A_KIND];
    let sql = "SELECT outbox.emit('load', CASE WHEN n = ANY($1) THEN to_jsonb(repeat('x', $2)) ELSE '1' END,
                                  exchange => CASE WHEN n = ANY($3) THEN 'no-such-exchange' END,
                                  aggregate_type => 'load', aggregate_id => (n % 25)::text)
               FROM generate_series(0, $4::int - 1) n";
    let bytes = MAX_MESSAGE_BYTES as i32 + 1;
    let rows = stack.db.query(sql, &[&large, &bytes, &nowhere, &EVENTS]).await.unwrap();
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();

    let is_good = |n: &i32| !large.contains(n) && !nowhere.contains(n);
    let event = |n: i32| Emitted { id: ids[n as usize], key: (n % 25).to_string(), n };
    let good: Vec<Emitted> = (0..EVENTS).filter(is_good).map(event).collect();
    check(&stack, &consumer, &good, 2 * CULPRITS_OF_A_KIND * IN_FLIGHT).await;
    for (culprits, answer) in [(nowhere, "404 NOT_FOUND"), (large, "406 PRECONDITION_FAILED")] {
        let culprits: Vec<Uuid> = culprits.iter().map(|n| ids[*n as usize]).collect();
        let sql = "SELECT count(*) FROM outbox.events
                   WHERE id = ANY($1) AND status = 'FAILED' AND attempts = 1 AND starts_with(last_error, $2)";
        let failed: i64 = stack.db.query_one(sql, &[&culprits, &answer]).await.unwrap().get(0);
        assert_eq!(failed as usize, CULPRITS_OF_A_KIND, "FAILED at once with {answer}");
    }
}

#[tokio::test]
async fn a_full_queue_holds_its_own_events_and_the_load_goes_on() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("load").await;
    let vhost = stack.vhost.name();
    queue(&stack, "full").await;
    let policy = format!("/api/policies/{vhost}/full");
    let definition = json!({ "max-length": 1, "overflow": "reject-publish" });
    let full = json!({ "pattern": "^full$", "apply-to": "queues", "definition": definition });
    stack.vhost.api("PUT", &policy, Some(&full)).await;
    let _relay =
        relay(&stack).set("retry-base", "20ms").set("retry-max", "100ms").set("max-attempts", "1000").start().await;

    let sql = "SELECT outbox.emit('full', to_jsonb(n), aggregate_type => 'full', aggregate_id => (n % 10)::text)
               FROM generate_series(1, 50) n";
    let stuck: Vec<Uuid> = stack.db.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    wait_for_rows(&stack, "topic = 'full' AND last_attempted_at IS NOT NULL", 5).await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "topic = 'full' AND attempts > 2", 5).await;
    wait_for_rows(&stack, "topic = 'load' AND status = 'SENT'", 1000).await;
    let emitted = load.stop().await;
    assert!(count(&stack, "topic = 'full' AND status = 'PENDING'").await >= 45, "the queue is full");

    stack.vhost.api("DELETE", &policy, None).await;
    let took = stack.consumer_with("full").queue("full").start().await;
    check(&stack, &consumer, &emitted, 0).await;
    let taken = took.wait_for_ids(&stuck, DRAINED).await;
    assert_eq!(taken.len(), stuck.len(), "each once");
    for key in 0..10 {
        let numbers = taken.iter().filter_map(|delivery| delivery.json().as_i64()).filter(|n| n % 10 == key);
        assert!(numbers.is_sorted(), "key {key}");
    }
    assert_eq!(count(&stack, "status <> 'SENT'").await, 0);
}
