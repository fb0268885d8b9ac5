//! Subtransactions: what a savepoint took back was never said.

use harness::{SOON, Stack};

use super::{count, ledger, wait_until_none_is_pending};

const SAVEPOINTS: i64 = 10_000;

#[tokio::test]
async fn of_10_000_savepoints_half_of_them_rolled_back_exactly_the_kept_are_delivered() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    // Every fourth savepoint is inside another, and is taken back or kept with it.
    let mut sql = "BEGIN;".to_owned();
    let mut kept = Vec::new();
    let emit = |n: i64| format!("SELECT outbox.emit('t', to_jsonb({n}), aggregate_id => '{}');", n % 10);
    for n in 0..SAVEPOINTS {
        let keeps = n % 2 == 0;
        sql += &format!("SAVEPOINT s; {}", emit(n));
        if n % 4 < 2 {
            sql += &format!("SAVEPOINT inner_; {} RELEASE inner_;", emit(SAVEPOINTS + n));
        }
        sql += if keeps { "RELEASE s;" } else { "ROLLBACK TO s; RELEASE s;" };
        if keeps {
            kept.push(n);
            kept.extend((n % 4 < 2).then_some(SAVEPOINTS + n));
        }
    }
    sql += "COMMIT";
    stack.db.batch_execute(&sql).await.unwrap();

    let arrived = consumer.wait_for_within(kept.len(), SOON).await;
    let mut numbers: Vec<i64> = arrived.iter().map(|delivery| delivery.json().as_i64().unwrap()).collect();
    numbers.sort_unstable();
    kept.sort_unstable();
    assert!(numbers == kept, "{} arrived, {} were kept", numbers.len(), kept.len());
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, kept.len() as i64);
    ledger::check(&stack.db, &[&consumer.ids()], 0).await;
}

#[tokio::test]
async fn savepoints_nested_a_thousand_deep_are_delivered_but_for_what_was_taken_back() {
    const DEPTH: i64 = 1_000;
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    let emit = |n: i64| format!("SELECT outbox.emit('t', to_jsonb({n}), aggregate_id => 'k');");
    let mut sql = "BEGIN;".to_owned();
    for depth in 0..DEPTH {
        sql += &format!("SAVEPOINT s{depth}; {}", emit(depth));
    }
    sql += &format!("ROLLBACK TO s{}; {} COMMIT", DEPTH / 2, emit(DEPTH));
    stack.db.batch_execute(&sql).await.unwrap();

    let expected: Vec<i64> = (0..DEPTH / 2).chain([DEPTH]).collect();
    let arrived = consumer.wait_for_within(expected.len(), SOON).await;
    let numbers: Vec<i64> = arrived.iter().map(|delivery| delivery.json().as_i64().unwrap()).collect();
    assert!(numbers == expected, "{} arrived, {} were kept", numbers.len(), expected.len());
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, expected.len() as i64);
}
