//! Many keys that are held by a nacked event, with more behind them than memory may hold.

use harness::Stack;

use super::{
    assert_memory_was_bounded, count, gate::Gate, ledger, patient_relay, resumed::Resumed, wait_until_none_is_pending,
};

#[tokio::test]
async fn keys_behind_many_stuck_ones_are_delivered_while_those_wait() {
    const STUCK: i64 = 50;
    const FOLLOWERS: i64 = 100;
    const GOOD: i64 = 2_000;
    let stack = Stack::new().await;
    let gate = Gate::closed(&stack.vhost, "full").await;
    let consumer = stack.consumer_with("free").without_bodies().start().await;
    let relay = patient_relay(&stack).set("max-bytes", "3000KiB").start().await;

    let stuck = format!(
        "SELECT outbox.emit(CASE WHEN n = 0 THEN 'full' ELSE 'free' END, to_jsonb(n), aggregate_type => 'stuck',
                            aggregate_id => key::text)
         FROM generate_series(0, {FOLLOWERS}) n, generate_series(1, {STUCK}) key ORDER BY n"
    );
    stack.db.batch_execute(&stuck).await.unwrap();
    let good = format!(
        "SELECT outbox.emit('free', to_jsonb(i), aggregate_type => 'good', aggregate_id => (i % 100)::text)
         FROM generate_series(1, {GOOD}) i"
    );
    stack.db.batch_execute(&good).await.unwrap();
    wait_until_none_is_pending(&stack.db, "aggregate_type = 'good'").await;
    assert_eq!(count(&stack.db, "aggregate_type = 'good' AND status = 'SENT' AND attempts = 1").await, GOOD);
    let waiting = count(&stack.db, "aggregate_type = 'stuck' AND status = 'PENDING'").await;
    assert_eq!(waiting, STUCK * (FOLLOWERS + 1), "nothing overtook a nacked event of its key");

    gate.open().await;
    let opened = Resumed::on(&stack.vhost.url(), "full").await;
    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT'").await, STUCK * (FOLLOWERS + 1) + GOOD);
    assert_eq!(count(&stack.db, "topic = 'free' AND attempts <> 1").await, 0, "who waits is not tried");
    ledger::wait_for_all(&stack.db, || [consumer.ids(), opened.ids()].concat()).await;
    ledger::check(&stack.db, &[&consumer.ids(), &opened.ids()], 0).await;
    assert_memory_was_bounded(&relay);
}
