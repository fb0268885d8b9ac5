//! The slot keeps too much of the WAL.

use std::time::Duration;

use harness::{Connection, Postgres, RabbitMq, Relay, SOON, Stack, eventually};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{REPEATED, check, emit, number, relay, relay_role, run, wait_until, wait_until_sent};
use crate::watch::{http_port, wait_for_metric, wait_for_ready};

/// For what the relay decides only after it has seen it for 20 s.
const DECIDED: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_slot_that_somebody_holds_back_is_told_of_in_time_with_amount_limit_and_whose_transaction_it_is() {
    let postgres = Postgres::private().set("max_slot_wal_keep_size", "320MB").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let relay = relay(&stack).start().await;
    let (forgotten, pid) = forget_a_transaction(&stack).await;
    write_segments(&stack.db, 12).await; // of 20 that it may keep
    let line = told(&relay, 0, "the slot keeps much of the WAL").await;
    let process = format!("an idle transaction of process {pid} of role \"postgres\" (\"report\")");
    for part in ["WARN", "kept=\"", "MB", "max_slot_wal_keep_size, about 3", &process] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    write_segments(&stack.db, 6).await;
    told(&relay, 0, "the slot is about to be lost").await;
    run(&forgotten, "ROLLBACK").await;
    checkpoint_until_told(&stack.db, &relay, "the slot keeps little of the WAL again").await;
}

#[tokio::test]
async fn an_emitter_that_does_not_commit_is_named_to_a_relay_that_sees_no_more_of_it_than_its_process() {
    let postgres = Postgres::private().set("max_slot_wal_keep_size", "320MB").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let role = relay_role(&stack.db).await;
    let relay = relay(&stack).set("database-url", &stack.db.url_as(&role)).start().await;
    let emitter = stack.db.connect().await;
    run(&emitter, "BEGIN").await;
    emit(&emitter, "k", 0).await; // which locks the table as emitters do, and keeps nobody out
    let pid = number(&emitter, "pg_backend_pid()").await;
    // A transaction that the slot waits for is younger than the one whose view it keeps.
    run(&stack.db, "CREATE TABLE other ()").await;
    write_segments(&stack.db, 18).await;
    let line = told(&relay, 0, "the slot is about to be lost").await;
    assert!(line.contains(&format!("held_by=a transaction of process {pid} of role")), "{line}");
    assert!(line.contains("open for more than"), "{line}");
    assert!(!relay.log_text().contains("who has locked"), "{}", relay.log_text());
}

#[tokio::test]
async fn a_prepared_transaction_that_holds_a_slot_back_is_named() {
    let postgres =
        Postgres::private().set("max_slot_wal_keep_size", "320MB").set("max_prepared_transactions", "1").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let relay = relay(&stack).start().await;
    let (forgotten, _) = forget_a_transaction(&stack).await;
    run(&forgotten, "PREPARE TRANSACTION 'forgotten'").await;
    write_segments(&stack.db, 12).await;
    let line = told(&relay, 0, "the slot keeps much of the WAL").await;
    assert!(
        line.contains("a prepared transaction of role") && line.contains("prepared transaction forgotten"),
        "{line}"
    );
    run(&stack.db, "ROLLBACK PREPARED 'forgotten'").await;
}

#[tokio::test]
async fn a_slot_that_keeps_more_than_max_slot_wal_is_dropped_and_events_leave_while_its_successor_is_made() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).set("max-slot-wal", "64MiB").set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    let mut committed = vec![emit(&stack.db, "k", 0).await];
    wait_until_sent(&stack.db, 1).await;
    let before = restart_lsn(&stack).await;
    let (forgotten, pid) = forget_a_transaction(&stack).await;
    let late = [emit(&forgotten, "late", 0).await, emit(&forgotten, "late", 1).await];

    // The successor waits for the same transaction, and may keep no more than its predecessor.
    for slots in 1..=2 {
        let mark = relay.mark();
        write_segments(&stack.db, 6).await;
        let line = told(&relay, mark, "dropping it, and creating it again").await;
        assert!(line.contains(&format!("process {pid}")) && line.contains("max_slot_wal=\"64 MB\""), "{line}");
        told(&relay, mark, "the table is read every second until it is").await;
        wait_for_metric(port, "outbox_slots_dropped_total", "", f64::from(slots)).await;
        let waits = format!("making the slot waits for an older transaction to end: process {pid} of ");
        wait_for_ready(port, 503, &waits).await;
        for _ in 0..5 {
            committed.push(emit(&stack.db, "k", committed.len() as i64).await);
        }
        wait_until_sent(&stack.db, committed.len() as i64).await;
    }
    run(&stack.db, "CHECKPOINT").await;
    let gone = format!("NOT EXISTS (SELECT FROM pg_ls_waldir() WHERE name = pg_walfile_name('{before}'))");
    wait_until(&stack.db, "the WAL that the first slot kept is gone", &gone).await;

    let mark = relay.mark();
    run(&forgotten, "COMMIT").await;
    committed.extend(late);
    relay.wait_for_log_after(mark, "created the replication slot").await;
    relay.wait_for_log_after(mark, "state=streaming").await;
    let ahead = format!("(SELECT restart_lsn > '{before}' FROM pg_replication_slots)::int");
    assert_eq!(number(&stack.db, &ahead).await, 1);
    committed.push(emit(&stack.db, "k", committed.len() as i64).await);
    wait_until_sent(&stack.db, committed.len() as i64).await;
    check(&stack.db, &consumer, &committed, 0).await;
}

#[tokio::test]
async fn a_slot_that_is_lost_under_a_running_relay_costs_no_event_and_no_pause_although_the_transaction_stays_open() {
    let postgres = Postgres::private().set("max_slot_wal_keep_size", "64MB").set("min_wal_size", "32MB").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let relays = [relay(&stack).start().await, relay(&stack).spawn()];
    relays[1].wait_for_log("state=standby").await;
    let (forgotten, _) = forget_a_transaction(&stack).await;
    let late = emit(&forgotten, "late", 0).await;
    run(&stack.db, "CHECKPOINT").await;
    write_segments(&stack.db, 8).await;
    run(&stack.db, "CHECKPOINT").await;
    // Whichever of the two is quicker.
    let maker = eventually("a relay creates the slot again", SOON, async || {
        let makes = |relay: &Relay| relay.log_text().contains("the table is read every second until it is");
        relays.iter().position(makes).ok_or("none")
    })
    .await;
    let mut committed = vec![emit(&stack.db, "k", 0).await, emit(&stack.db, "k", 1).await];
    wait_until_sent(&stack.db, 2).await;

    // A slot that is being made is its relay's: the other works only once that one is gone.
    relays[maker].kill().await;
    relays[1 - maker].wait_for_log("the table is read every second until it is").await;
    committed.push(emit(&stack.db, "k", 2).await);
    wait_until_sent(&stack.db, 3).await;
    let mark = relays[1 - maker].mark();
    run(&forgotten, "COMMIT").await;
    committed.push(late);
    committed.push(emit(&stack.db, "k", 3).await);
    relays[1 - maker].wait_for_log_after(mark, "state=streaming").await;
    wait_until_sent(&stack.db, 5).await;
    check(&stack.db, &consumer, &committed, 2 * REPEATED).await;
}

#[tokio::test]
async fn a_slot_is_not_dropped_while_another_one_keeps_still_more() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let relay = relay(&stack).set("max-slot-wal", "64MiB").spawn();
    run(&stack.db, "SELECT pg_create_physical_replication_slot('a_standbys', true)").await;
    relay.wait_for_log("state=streaming").await;
    run(&stack.db, "SELECT pg_logical_emit_message(false, 'x', 'x'); SELECT pg_switch_wal()").await;
    let ahead =
        "(SELECT own.restart_lsn > other.restart_lsn FROM pg_replication_slots AS own, pg_replication_slots AS other
                  WHERE own.slot_type = 'logical' AND other.slot_type = 'physical')";
    checkpoint_until(&stack.db, "the relay's slot is ahead of the other", ahead).await;
    let (_forgotten, _) = forget_a_transaction(&stack).await;
    write_segments(&stack.db, 6).await;
    let line = told(&relay, 0, "dropping it would free nothing").await;
    assert!(line.contains("other=\"a_standbys\""), "{line}");
    assert!(!relay.log_text().contains("creating it again"));
    run(&stack.db, "SELECT pg_drop_replication_slot('a_standbys')").await;
    told(&relay, 0, "dropping it, and creating it again").await;
}

#[tokio::test]
async fn a_relay_whose_first_slot_waits_for_an_older_transaction_delivers_from_the_table_meanwhile() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let (forgotten, _) = forget_a_transaction(&stack).await;
    let late = emit(&forgotten, "late", 0).await;
    let mut committed: Vec<Uuid> = vec![emit(&stack.db, "k", 0).await];
    let relay = relay(&stack).spawn();
    wait_until_sent(&stack.db, 1).await;
    for n in 1..200 {
        committed.push(emit(&stack.db, "k", n).await);
    }
    wait_until_sent(&stack.db, 200).await;
    run(&forgotten, "COMMIT").await;
    committed.push(late);
    // Events of the moment in which the stream begins.
    for n in 200..1000 {
        committed.push(emit(&stack.db, "k", n).await);
    }
    relay.wait_for_log("state=streaming").await;
    check(&stack.db, &consumer, &committed, 0).await;
    assert!(relay.stop().await.success());
}

/// A transaction that has written, and that nobody ends; and its process.
async fn forget_a_transaction(stack: &Stack) -> (Connection, i64) {
    let session = stack.db.connect().await;
    run(&session, "SET application_name = 'report'; BEGIN; SELECT pg_logical_emit_message(true, 'x', 'x')").await;
    let pid = number(&session, "pg_backend_pid()").await;
    (session, pid)
}

/// Writes so many segments of 16 MB, which cost next to nothing, and has the server note which transactions run.
async fn write_segments(db: &Client, segments: usize) {
    for _ in 0..segments {
        run(db, "SELECT pg_logical_emit_message(false, 'x', 'x'); SELECT pg_switch_wal()").await;
    }
    run(db, "CHECKPOINT").await;
}

async fn restart_lsn(stack: &Stack) -> String {
    stack.db.query_one("SELECT restart_lsn::text FROM pg_replication_slots", &[]).await.unwrap().get(0)
}

async fn told(relay: &Relay, mark: usize, text: &str) -> String {
    eventually(&format!("the relay logs {text:?}"), DECIDED, async || {
        let lines = relay.log_lines();
        lines.iter().skip(mark).find(|line| line.contains(text)).cloned().ok_or_else(|| lines.last().cloned())
    })
    .await
}

/// A relay that has nothing to do learns that it may move on when the server next notes which transactions run.
async fn checkpoint_until_told(db: &Client, relay: &Relay, text: &str) {
    eventually(&format!("the relay logs {text:?}"), DECIDED, async || {
        run(db, "CHECKPOINT").await;
        if relay.log_text().contains(text) { Ok(()) } else { Err(relay.log_lines().last().cloned()) }
    })
    .await;
}

async fn checkpoint_until(db: &Client, what: &str, sql: &str) {
    eventually(what, SOON, async || {
        run(db, "CHECKPOINT").await;
        match number(db, &format!("({sql})::int")).await {
            1 => Ok(()),
            _ => Err(format!("not: {sql}")),
        }
    })
    .await;
}
