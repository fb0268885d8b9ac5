//! Somebody holds a lock that the verdicts need.

use std::time::Duration;

use harness::Stack;

use super::{Load, check, emit, lost_sessions, number, relay, run, wait_until, wait_until_sent};

/// What a lock lasts is time: longer than any wait of the relay's own.
const WHILE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_table_that_is_locked_for_a_while_delays_verdicts_and_nothing_else() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let load = Load::start(stack.db.url());
    for _ in 0..2 {
        load.goes_on(200).await;
        run(&stack.db, "BEGIN; LOCK TABLE outbox.events IN ACCESS EXCLUSIVE MODE").await;
        tokio::time::sleep(WHILE).await;
        run(&stack.db, "COMMIT").await;
    }
    load.goes_on(200).await;
    let committed = load.stop().await;
    check(&stack.db, &consumer, &committed, 0).await;
    assert_eq!(lost_sessions(&relay), 0, "a lock is no reason to give up a session");
}

#[tokio::test]
async fn a_relay_that_starts_while_the_table_is_locked_waits_and_loses_nothing() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    super::relay(&stack).start().await.kill().await;
    let mut committed = Vec::new();
    for n in 0..20 {
        committed.push(emit(&stack.db, "k", n).await);
    }
    run(&stack.db, "BEGIN; LOCK TABLE outbox.events IN ACCESS EXCLUSIVE MODE").await;
    let relay = relay(&stack).spawn();
    tokio::time::sleep(WHILE).await;
    assert_eq!(relay.try_exit(), None, "{}", relay.log_text());
    run(&stack.db, "COMMIT").await;
    check(&stack.db, &consumer, &committed, 0).await;
}

#[tokio::test]
async fn a_row_that_is_locked_by_an_idle_transaction_delays_its_own_verdict_only() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let blocker = stack.db.connect().await;
    relay.pause();
    let mut committed = Vec::new();
    for n in 0..100 {
        committed.push(emit(&stack.db, &format!("key {}", n % 10), n).await);
    }
    let locked = committed[50];
    run(&blocker, &format!("BEGIN; SELECT FROM outbox.events WHERE id = '{locked}' FOR UPDATE")).await;
    relay.resume();

    // Not even its own key waits: the broker's answer is known, and only not written yet.
    let others = "SELECT count(*) FROM outbox.events WHERE status = 'SENT'";
    wait_until(&stack.db, "the others have their verdicts", &format!("({others}) = 99")).await;
    let load = Load::start(stack.db.url());
    load.goes_on(500).await;
    committed.extend(load.stop().await);
    let open = "SELECT count(*) FROM outbox.events WHERE status = 'PENDING'";
    wait_until(&stack.db, "only the locked row waits", &format!("({open}) = 1")).await;
    run(&blocker, "COMMIT").await;
    check(&stack.db, &consumer, &committed, 0).await;
    assert_eq!(lost_sessions(&relay), 0);
}

#[tokio::test]
async fn a_locked_row_that_was_confirmed_is_not_sent_again_by_a_pass() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let done = emit(&stack.db, "replayed", 1).await;
    wait_until_sent(&stack.db, 1).await;
    let blocker = stack.db.connect().await;
    relay.pause();
    let locked = emit(&stack.db, "locked", 2).await;
    run(&blocker, &format!("BEGIN; SELECT FROM outbox.events WHERE id = '{locked}' FOR UPDATE")).await;
    relay.resume();
    consumer.wait_for(2).await;

    // A replay calls for a pass, which finds the locked row PENDING still.
    assert_eq!(number(&stack.db, &format!("outbox.replay('{done}')::int")).await, 1);
    consumer.wait_for(3).await;
    let replayed = format!("(SELECT status = 'SENT' FROM outbox.events WHERE id = '{done}')");
    wait_until(&stack.db, "the replayed one has its verdict", &replayed).await;
    run(&blocker, "COMMIT").await;
    wait_until_sent(&stack.db, 2).await;
    assert_eq!(consumer.ids(), [done, locked, done]);
}

#[tokio::test]
async fn a_table_that_is_locked_for_long_does_not_hold_the_slot_back() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let blocker = stack.db.connect().await;
    relay.pause();
    let committed = vec![emit(&stack.db, "k", 1).await];
    run(&blocker, "BEGIN; LOCK TABLE outbox.events IN SHARE ROW EXCLUSIVE MODE").await;
    let written: String = stack.db.query_one("SELECT pg_current_wal_insert_lsn()::text", &[]).await.unwrap().get(0);
    relay.resume();
    consumer.wait_for(1).await;
    let moved = format!(
        "EXISTS (SELECT FROM pg_replication_slots WHERE database = current_database() AND confirmed_flush_lsn >= '{written}')"
    );
    wait_until(&stack.db, "the slot moves on", &moved).await;
    run(&blocker, "COMMIT").await;
    check(&stack.db, &consumer, &committed, 0).await;
}

#[tokio::test]
async fn rows_that_are_locked_stop_no_other_event_for_as_long_as_memory_has_room() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    super::relay(&stack).start().await.kill().await;
    let mut committed = Vec::new();
    for n in 0..180 {
        committed.push(emit(&stack.db, &format!("locked {n}"), n).await);
    }
    let blocker = stack.db.connect().await;
    run(&blocker, "BEGIN; SELECT FROM outbox.events FOR UPDATE").await;
    let relay = relay(&stack).set("max-bytes", "600KiB").spawn();
    consumer.wait_for(180).await;
    for n in 0..50 {
        committed.push(emit(&stack.db, "other", n).await);
    }
    let sent = "SELECT count(*) FROM outbox.events WHERE status = 'SENT'";
    wait_until(&stack.db, "the others have their verdicts", &format!("({sent}) = 50")).await;
    run(&blocker, "COMMIT").await;
    check(&stack.db, &consumer, &committed, 0).await;
    assert_eq!(lost_sessions(&relay), 0);
}
