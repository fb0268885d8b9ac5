//! One key with far more events than memory may hold, beside others.

use harness::{Connection, Stack};

use super::{assert_memory_was_bounded, count, ledger, wait_until_none_is_pending};

const HOT: i64 = 100_000;
const OTHERS: i64 = 2_000;

/// A hundred other keys.
const EMIT_OTHERS: &str = "SELECT outbox.emit('other', to_jsonb(i), aggregate_type => 'a',
    aggregate_id => 'key-' || i % 100) FROM generate_series(1, 20) i";

async fn emit_hot(db: &Connection) {
    let sql = format!(
        "SELECT outbox.emit('hot', to_jsonb(i), aggregate_type => 'a', aggregate_id => 'hot') FROM generate_series(1, {}) i",
        HOT / 100
    );
    for _ in 0..100 {
        db.batch_execute(&sql).await.unwrap();
    }
}

async fn emit_others(db: &Connection) {
    for _ in 0..OTHERS / 20 {
        db.batch_execute(EMIT_OTHERS).await.unwrap();
    }
}

#[tokio::test]
async fn a_hot_key_that_outgrows_memory_is_worked_off_in_order_while_other_keys_overtake_it() {
    let stack = Stack::new().await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let relay = stack.relay().start().await;
    let other = stack.db.connect().await;
    tokio::join!(emit_hot(&stack.db), emit_others(&other));

    wait_until_none_is_pending(&stack.db, "topic = 'other'").await;
    let waiting = count(&stack.db, "topic = 'hot' AND status = 'PENDING'").await;
    assert!(waiting > 0, "the others waited for the hot key");
    println!("{waiting} of the hot key still wait");
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, HOT + OTHERS);
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
    ledger::check(&stack.db, &[&consumer.ids()], 0).await;
    assert_memory_was_bounded(&relay);
}

#[tokio::test]
async fn a_hot_key_that_is_pipelined_arrives_in_order_beside_other_keys() {
    let stack = Stack::new().await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let relay = stack.relay().set("ordering", "pipelined").start().await;
    let other = stack.db.connect().await;
    tokio::join!(emit_hot(&stack.db), emit_others(&other));

    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, HOT + OTHERS);
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
    ledger::check(&stack.db, &[&consumer.ids()], 0).await;
    assert_memory_was_bounded(&relay);
}
