//! The slot is taken away.

use harness::{Postgres, RabbitMq, SOON, Stack, eventually};
use tokio_postgres::Client;

use super::{Load, REPEATED, check, emit, lost_sessions, number, relay, run, wait_until, wait_until_sent};

#[tokio::test]
async fn a_slot_that_is_dropped_while_it_streams_is_made_again_and_loses_nothing() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    let load = Load::start(stack.db.url());
    for _ in 0..2 {
        load.goes_on(200).await;
        let mark = relay.mark();
        drop_slot(&stack.db, stack.db.name()).await;
        relay.wait_for_log_after(mark, "created the replication slot").await;
        relay.wait_for_log_after(mark, "streaming").await;
    }
    load.goes_on(200).await;
    let committed = load.stop().await;
    check(&stack.db, &consumer, &committed, lost_sessions(&relay) * REPEATED).await;
}

/// Ends whoever streams, and drops the slot before the next one comes.
async fn drop_slot(db: &Client, slot: &str) {
    let sql = format!(
        "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE slot_name = '{slot}' AND active;
         SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{slot}'"
    );
    eventually("the slot is dropped", SOON, async || db.batch_execute(&sql).await.map_err(|e| e.to_string())).await;
}

#[tokio::test]
async fn a_slot_that_the_server_has_invalidated_is_made_again_and_loses_nothing() {
    let postgres = Postgres::private().set("max_slot_wal_keep_size", "1MB").set("min_wal_size", "32MB").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let mut relay = relay(&stack).start().await;
    let (mut committed, mut sent) = (Vec::new(), 0);
    for is_frozen in [true, false] {
        committed.push(emit(&stack.db, "k", sent).await);
        wait_until_sent(&stack.db, sent + 1).await;
        if is_frozen {
            relay.pause();
        } else {
            relay.kill().await;
        }
        committed.push(emit(&stack.db, "k", sent + 1).await);
        outrun_slot(&stack.db).await;
        if is_frozen {
            relay.resume();
        } else {
            relay = super::relay(&stack).start().await;
        }
        relay.wait_for_log("creating it again").await;
        sent += 2;
        wait_until_sent(&stack.db, sent).await;
    }
    let status = "(SELECT count(*) FROM pg_replication_slots WHERE wal_status <> 'lost')";
    assert_eq!(number(&stack.db, status).await, 1);
    check(&stack.db, &consumer, &committed, 2 * REPEATED).await;
}

#[tokio::test]
async fn a_slot_that_is_invalidated_under_a_frozen_relay_is_made_anew_by_the_one_that_waits() {
    let postgres = Postgres::private().set("max_slot_wal_keep_size", "1MB").set("min_wal_size", "32MB").start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let working = relay(&stack).set("takeover-after", "60s").start().await;
    let waiting = relay(&stack).set("takeover-after", "60s").spawn();
    waiting.wait_for_log("state=standby").await;
    let mut committed = vec![emit(&stack.db, "k", 0).await];
    wait_until_sent(&stack.db, 1).await;
    working.pause();
    committed.push(emit(&stack.db, "k", 1).await);
    write_log(&stack.db).await;
    waiting.wait_for_log("creating it again").await;
    waiting.wait_for_log("state=streaming").await;
    wait_until_sent(&stack.db, 2).await;
    let mark = working.mark();
    working.resume();
    working.wait_for_log_after(mark, "state=standby").await;
    committed.push(emit(&stack.db, "k", 2).await);
    wait_until_sent(&stack.db, 3).await;
    check(&stack.db, &consumer, &committed, REPEATED).await;
}

#[tokio::test]
async fn a_slot_that_is_dropped_while_a_relay_waits_for_it_is_made_by_whoever_comes_first() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relays = [relay(&stack).start().await, relay(&stack).spawn()];
    relays[1].wait_for_log("state=standby").await;
    let mut committed = vec![];
    for n in 0..3 {
        let marks = relays.each_ref().map(|relay| relay.mark());
        committed.push(emit(&stack.db, "k", n).await);
        drop_slot(&stack.db, stack.db.name()).await;
        eventually("one of them streams", SOON, async || {
            let streams = |(relay, mark): (&harness::Relay, usize)| {
                relay.log_lines().iter().skip(mark).any(|line| line.contains("state=streaming"))
            };
            if relays.iter().zip(marks).any(streams) { Ok(()) } else { Err("none") }
        })
        .await;
        wait_until_sent(&stack.db, n + 1).await;
    }
    check(&stack.db, &consumer, &committed, 3 * REPEATED).await;
}

/// Writes WAL until the server gives up what the slot would still need. None of it goes to the relay: PostgreSQL cannot
/// end a walsender whose client is frozen with a full socket.
async fn outrun_slot(db: &Client) {
    write_log(db).await;
    let lost = "EXISTS (SELECT FROM pg_replication_slots WHERE wal_status = 'lost')";
    wait_until(db, "the slot is invalidated", lost).await;
}

async fn write_log(db: &Client) {
    run(db, "CREATE TABLE IF NOT EXISTS noise (text text)").await;
    for _ in 0..4 {
        run(db, "INSERT INTO noise SELECT repeat('x', 1000) FROM generate_series(1, 16000)").await;
        run(db, "SELECT pg_switch_wal()").await;
    }
    run(db, "TRUNCATE noise").await;
    run(db, "CHECKPOINT").await;
}
