//! A topic whose queue takes nothing for long.

use harness::Stack;

use super::{
    assert_memory_was_bounded, count, gate::Gate, ledger, patient_relay, resumed::Resumed, wait_until_none_is_pending,
};

#[tokio::test]
async fn a_topic_that_is_nacked_for_long_stops_no_other_and_is_delivered_in_order_when_there_is_room() {
    const NACKED: i64 = 4_000;
    const OTHERS: i64 = 5_000;
    let stack = Stack::new().await;
    let gate = Gate::closed(&stack.vhost, "full").await;
    let consumer = stack.consumer_with("free.#").without_bodies().start().await;
    let relay = patient_relay(&stack).set("max-bytes", "1500KiB").set("in-flight", "200").start().await;

    // One in four has no key; the other keys have three events each: more than memory may hold, of both.
    let nacked = format!(
        "SELECT outbox.emit('full', to_jsonb(i), aggregate_type => 'nacked',
                            aggregate_id => CASE WHEN i % 4 > 0 THEN (i / 4)::text END)
         FROM generate_series(0, {}) i",
        NACKED - 1
    );
    stack.db.batch_execute(&nacked).await.unwrap();
    for _ in 0..OTHERS / 50 {
        let others = "SELECT outbox.emit('free.' || i % 5, to_jsonb(i), aggregate_type => 'free',
                                         aggregate_id => CASE WHEN i % 2 > 0 THEN (i % 20)::text END)
                      FROM generate_series(1, 50) i";
        stack.db.batch_execute(others).await.unwrap();
    }
    wait_until_none_is_pending(&stack.db, "topic <> 'full'").await;
    assert_eq!(count(&stack.db, "topic <> 'full' AND status = 'SENT' AND attempts = 1").await, OTHERS);
    assert_eq!(count(&stack.db, "topic = 'full' AND status = 'PENDING'").await, NACKED, "no room was made yet");

    gate.open().await;
    let opened = Resumed::on(&stack.vhost.url(), "full").await;
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT'").await, NACKED + OTHERS);
    ledger::wait_for_all(&stack.db, || [consumer.ids(), opened.ids()].concat()).await;
    ledger::check(&stack.db, &[&consumer.ids(), &opened.ids()], 0).await;
    assert_memory_was_bounded(&relay);
}
