//! The stream leaves events out, because the publication does: the relay finds them in the table.

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

/// The stream leaves such an event out, and the pass with which a session begins does not see it.
#[tokio::test]
async fn an_event_of_a_time_without_the_table_that_commits_after_the_next_start_goes_before_later_ones_of_its_key() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let seldom = || super::relay(&stack).set("check-interval", "20s").set("log", "debug");
    let relay = seldom().start().await;
    emit(&stack.db, "k", 1).await;
    wait_until_sent(&stack.db, 1).await;

    let unpublished = stack.db.connect().await;
    run(&stack.db, "ALTER PUBLICATION outbox DROP TABLE outbox.events").await;
    run(&unpublished, "BEGIN").await;
    emit(&unpublished, "k", 2).await;
    // Whoever mends it has begun before, and ends later, than one who emits meanwhile.
    let mends = stack.db.connect().await;
    run(&mends, "BEGIN; ALTER PUBLICATION outbox ADD TABLE outbox.events").await;
    let meanwhile = stack.db.connect().await;
    run(&meanwhile, "BEGIN").await;
    emit(&meanwhile, "l", 1).await;
    run(&mends, "COMMIT").await;
    relay.kill().await;
    let relay = seldom().spawn();
    // Not an event, for which the server would describe the table, and then stream what the publication leaves out.
    relay.wait_for_log("read the table").await;

    for (open, key, n) in [(unpublished, "k", 3), (meanwhile, "l", 2)] {
        run(&open, "COMMIT").await;
        emit(&stack.db, key, n).await;
    }
    wait_until_sent(&stack.db, 5).await;
    assert_one_attempt(&stack.db).await;
    super::account::assert_in_order(&consumer.wait_for(5).await);
    assert_eq!(consumer.count(), 5);
    relay.wait_for_log("state=streaming").await;
}

#[tokio::test]
async fn a_transaction_that_has_written_no_event_keeps_no_session_from_streaming_after_the_publication_has_changed() {
    let stack = Stack::new().await;
    let relay = super::relay(&stack).start().await;
    relay.wait_for_log("state=streaming").await;
    let open = stack.db.connect().await;
    run(&open, "CREATE TABLE theirs (id int); BEGIN; INSERT INTO theirs VALUES (1)").await;
    run(
        &stack.db,
        "ALTER PUBLICATION outbox DROP TABLE outbox.events; ALTER PUBLICATION outbox ADD TABLE outbox.events",
    )
    .await;
    relay.kill().await;
    let relay = super::relay(&stack).start().await;
    relay.wait_for_log("state=streaming").await;
    run(&open, "COMMIT").await;
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

#[tokio::test]
async fn logical_messages_of_anybody_of_any_size_cost_the_relay_no_memory() {
    const MIB: u64 = 1 << 20;
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = super::relay(&stack).start().await;
    let role = format!("nobody_{}", stack.db.name());
    run(&stack.db, &format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).await;
    let nobody = stack.db.connect_as(&role).await;
    emit(&stack.db, "k", 0).await;
    wait_until_sent(&stack.db, 1).await;
    let before = relay.usage().peak_rss_bytes;

    let messages = [
        "SELECT pg_logical_emit_message(true, 'x', repeat('x', 300000000))",
        "SELECT pg_logical_emit_message(false, 'x', repeat('x', 300000000))",
        "SELECT pg_logical_emit_message(true, 'outbox', repeat('x', 100000000))",
        "SELECT pg_logical_emit_message(true, repeat('x', 100000000), 'x')",
        "SELECT pg_logical_emit_message(n % 2 = 0, 'x', repeat('x', 1000000)) FROM generate_series(1, 100) n",
        "SELECT pg_logical_emit_message(n % 2 = 0, 'outbox', repeat('x', 1000)) FROM generate_series(1, 10000) n",
    ];
    for (n, message) in (1..).zip(messages) {
        run(&nobody, message).await;
        emit(&stack.db, "k", n).await;
        wait_until_sent(&stack.db, n + 1).await;
    }
    let grown = relay.usage().peak_rss_bytes - before;
    println!("grown by {} KiB", grown / 1024);
    assert!(grown < 8 * MIB, "{grown}");
    assert_eq!(consumer.wait_for(1 + messages.len()).await.len(), 1 + messages.len());
    assert!(!relay.log_text().contains("disconnected"));
    drop(nobody);
    run(&stack.db, &format!("DROP ROLE {role}")).await;
}

/// A column of the user's own may hold what no event may.
#[tokio::test]
async fn a_row_too_large_to_be_streamed_is_found_in_the_table_in_its_order() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = super::relay(&stack).start().await;
    run(&stack.db, "SET outbox.allow_undumped_changes = on; ALTER TABLE outbox.events ADD COLUMN attachment text")
        .await;
    emit(&stack.db, "k", 0).await;
    wait_until_sent(&stack.db, 1).await;
    let large = "BEGIN; SELECT outbox.emit('t', '1', aggregate_type => 'order', aggregate_id => 'k');
                 INSERT INTO outbox.events (topic, payload, aggregate_type, aggregate_id, attachment)
                 VALUES ('t', '2', 'order', 'k', repeat('x', 160 << 20));
                 SELECT outbox.emit('t', '3', aggregate_type => 'order', aggregate_id => 'k'); COMMIT";
    run(&stack.db, large).await;
    wait_until_sent(&stack.db, 4).await;
    assert_one_attempt(&stack.db).await;
    let bodies: Vec<_> = consumer.wait_for(4).await.iter().skip(1).map(|delivery| delivery.json()).collect();
    assert_eq!(bodies, [1, 2, 3]);
    assert!(relay.log_text().contains("too large to be held in memory"));
}

/// A column of the user's own, of 3 kB, that prints as more than 1 GB.
#[tokio::test]
async fn a_row_that_the_server_itself_cannot_stream_stops_nobody() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = super::relay(&stack).start().await;
    run(&stack.db, "SET outbox.allow_undumped_changes = on; ALTER TABLE outbox.events ADD COLUMN numbers jsonb").await;
    emit(&stack.db, "k", 0).await;
    wait_until_sent(&stack.db, 1).await;
    let mark = relay.mark();
    let too_long = "BEGIN; INSERT INTO outbox.events (topic, payload, numbers)
                    SELECT 'gone', '1', ('[' || string_agg('1e131071', ',') || ']')::jsonb FROM generate_series(1, 8200);
                    DELETE FROM outbox.events WHERE topic = 'gone'; COMMIT";
    run(&stack.db, too_long).await;
    emit(&stack.db, "k", 1).await;
    relay.wait_for_log_after(mark, "going on behind it").await;
    relay.wait_for_log_after(mark, "state=streaming").await;
    emit(&stack.db, "k", 2).await;
    wait_until_sent(&stack.db, 3).await;
    assert_eq!(consumer.wait_for(3).await.len(), 3);
    let ended = relay.log_lines().iter().filter(|line| line.contains("state=disconnected")).count();
    assert_eq!(ended, 1, "once, not again and again");
}
