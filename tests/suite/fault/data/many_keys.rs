//! More keys than memory may hold events.

use harness::Stack;

use super::{assert_memory_was_bounded, count, ledger, wait_until_none_is_pending};

const KEYS: i64 = 100_000;

#[tokio::test]
async fn of_100_000_keys_each_arrives_in_order() {
    let stack = Stack::new().await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let relay = stack.relay().start().await;
    for _ in 0..2 {
        let emit = format!(
            "SELECT outbox.emit('t', to_jsonb(i), aggregate_type => 'a', aggregate_id => i::text)
             FROM generate_series(1, {KEYS}) i"
        );
        stack.db.batch_execute(&emit).await.unwrap();
    }
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, 2 * KEYS);
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
    ledger::check(&stack.db, &[&consumer.ids()], 0).await;
    assert_memory_was_bounded(&relay);
}
