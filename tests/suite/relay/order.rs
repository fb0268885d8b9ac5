//! Events of one key arrive in the order of their commits.

use std::collections::HashMap;

use harness::{Delivery, SOON, Stack};

use super::{FullQueue, wait_for_counts};

/// Emits under the key's row lock, so that the order of `n` is the order of the commits.
pub(super) const NUMBERED: &str = "
    CREATE TABLE counters (key text PRIMARY KEY, n int NOT NULL DEFAULT 0);
    INSERT INTO counters SELECT 'key-' || i FROM generate_series(0, 49) i;
    CREATE FUNCTION emit_numbered(key_ text) RETURNS uuid LANGUAGE sql AS $$
        WITH next AS (UPDATE counters SET n = n + 1 WHERE key = key_ RETURNING n)
        SELECT outbox.emit('order.moved', jsonb_build_object('n', n), aggregate_type => 'order', aggregate_id => key_)
        FROM next
    $$;";

/// Every key's numbers in the order of arrival.
pub(super) fn numbers_by_key(deliveries: &[Delivery]) -> HashMap<String, Vec<i64>> {
    let mut keys: HashMap<String, Vec<i64>> = HashMap::new();
    for delivery in deliveries {
        let (_, key) = delivery.key().unwrap();
        keys.entry(key).or_default().push(delivery.json()["n"].as_i64().unwrap());
    }
    keys
}

#[tokio::test]
async fn a_key_is_delivered_in_commit_order_though_it_was_emitted_in_another() {
    let mut stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    let other = stack.db.connect().await;
    let emit = |n: i32| format!("SELECT outbox.emit('t', to_jsonb({n}), aggregate_type => 'a', aggregate_id => 'k')");

    let open = stack.db.transaction().await.unwrap();
    open.batch_execute(&emit(2)).await.unwrap();
    other.batch_execute(&emit(1)).await.unwrap();
    open.commit().await.unwrap();

    let bodies: Vec<_> = consumer.wait_for(2).await.into_iter().map(|delivery| delivery.json()).collect();
    assert_eq!(bodies, [1, 2]);
}

#[tokio::test]
async fn a_refused_event_holds_its_key_and_no_other() {
    let stack = Stack::new().await;
    let full = FullQueue::bind(&stack.vhost, "full").await;
    let consumer = stack.consumer("free").await;
    let _relay =
        stack.relay().set("retry-base", "50ms").set("max-attempts", "1000").set("retry-max", "100ms").start().await;

    let emit = "SELECT outbox.emit(topic, to_jsonb(n), aggregate_type => 'a', aggregate_id => key)
                FROM (VALUES ('full', 1, 'stuck'), ('free', 2, 'stuck'), ('free', 3, 'other')) AS e (topic, n, key)";
    stack.db.batch_execute(emit).await.unwrap();
    let others: Vec<_> = consumer.wait_for(1).await.into_iter().map(|delivery| delivery.json()).collect();
    assert_eq!(others, [3], "the other key goes on");
    wait_for_counts(&stack.db, (2, 1, 0), SOON).await;

    full.make_room().await;
    let all: Vec<_> = consumer.wait_for(2).await.into_iter().map(|delivery| delivery.json()).collect();
    assert_eq!(all, [3, 2]);
    wait_for_counts(&stack.db, (0, 3, 0), SOON).await;
}
