//! The log says nothing of what is owed: nobody rang.

use harness::{RelayBuilder, Stack};

use super::{assert_one_attempt, emit, run, wait_until_sent};

/// Looks into the table now and then, whatever the log says.
fn watchful_relay(stack: &Stack) -> RelayBuilder {
    super::relay(stack).set("check-interval", "500ms")
}

#[tokio::test]
async fn events_of_a_time_when_the_table_was_not_in_the_publication_are_delivered() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = watchful_relay(&stack).start().await;
    emit(&stack.db, "before", 1).await;
    wait_until_sent(&stack.db, 1).await;

    run(&stack.db, "ALTER PUBLICATION outbox DROP TABLE outbox.events").await;
    emit(&stack.db, "meanwhile", 2).await;
    run(&stack.db, "ALTER PUBLICATION outbox ADD TABLE outbox.events").await;
    emit(&stack.db, "after", 3).await;
    wait_until_sent(&stack.db, 3).await;
    assert_one_attempt(&stack.db).await;
    assert_eq!(consumer.wait_for(3).await.len(), 3);
}

#[tokio::test]
async fn a_publication_that_stays_without_the_table_delays_events_but_loses_none() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = watchful_relay(&stack).start().await;
    run(&stack.db, "ALTER PUBLICATION outbox DROP TABLE outbox.events").await;
    for n in 0..3 {
        emit(&stack.db, "k", n).await;
        wait_until_sent(&stack.db, n + 1).await;
    }
    assert_one_attempt(&stack.db).await;
    super::account::assert_in_order(&consumer.wait_for(3).await);
    assert_eq!(consumer.count(), 3);
}

#[tokio::test]
async fn a_publication_that_leaves_inserts_out_delays_events_but_loses_none() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = watchful_relay(&stack).start().await;
    run(&stack.db, "ALTER PUBLICATION outbox SET (publish = 'truncate')").await;
    emit(&stack.db, "k", 1).await;
    wait_until_sent(&stack.db, 1).await;
    assert_eq!(consumer.wait_for(1).await.len(), 1);
}

#[tokio::test]
async fn a_replay_with_triggers_disabled_is_delivered() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = watchful_relay(&stack).start().await;
    let ids = [emit(&stack.db, "k", 1).await, emit(&stack.db, "k", 2).await];
    wait_until_sent(&stack.db, 2).await;
    consumer.wait_for(2).await;

    let replay = "ALTER TABLE outbox.events DISABLE TRIGGER USER; UPDATE outbox.events SET status = 'PENDING';
                  ALTER TABLE outbox.events ENABLE TRIGGER USER";
    run(&stack.db, replay).await;
    consumer.wait_for(4).await;
    wait_until_sent(&stack.db, 2).await;
    assert_eq!(consumer.ids(), [ids, ids].concat(), "each twice, in order, with the same ids");
}

#[tokio::test]
async fn an_event_that_was_inserted_with_triggers_disabled_and_left_out_of_the_log_is_delivered() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = watchful_relay(&stack).start().await;
    emit(&stack.db, "k", 1).await;
    wait_until_sent(&stack.db, 1).await;
    // As by a logical restore: the rows come back as they were, PENDING among them.
    let restore = "ALTER PUBLICATION outbox DROP TABLE outbox.events;
                   ALTER TABLE outbox.events DISABLE TRIGGER USER;
                   INSERT INTO outbox.events (id, topic, payload, status, created_at)
                   SELECT gen_random_uuid(), 'restored', to_jsonb(n), 'PENDING', now() FROM generate_series(1, 10) n;
                   ALTER TABLE outbox.events ENABLE TRIGGER USER;
                   ALTER PUBLICATION outbox ADD TABLE outbox.events";
    run(&stack.db, restore).await;
    wait_until_sent(&stack.db, 11).await;
    assert_eq!(consumer.wait_for(11).await.len(), 11);
}
