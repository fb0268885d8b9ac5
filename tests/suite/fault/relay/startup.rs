//! SIGKILL before the relay streams.

use std::time::Duration;

use harness::{Postgres, RabbitMq, SOON, Stack, eventually, seed};

use super::{emit, repeated};

/// Making a slot waits for all older transactions of the server, so this server is not shared with other tests.
#[tokio::test]
async fn killed_while_its_slot_is_being_made_it_is_no_obstacle_to_the_next() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let older = stack.db.connect().await;
    older.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    let first = stack.relay().spawn();
    first.wait_for_log("waits for an older transaction").await;
    first.kill().await;

    let ids = emit(&stack.db, 100, 10).await;
    let next = stack.relay().spawn();
    eventually("the next one waits, too, be it for the server to free the slot", SOON, async || {
        let log = next.log_text();
        let waits = ["waits for an older transaction", "state=standby"].iter().any(|line| log.contains(line));
        if waits { Ok(()) } else { Err(log) }
    })
    .await;
    older.batch_execute("COMMIT").await.unwrap();
    next.wait_for_log("streaming").await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, 0);
}

/// The next relay waits for the same table, and not for the session of a dead one.
#[tokio::test]
async fn killed_while_it_reads_the_table_it_leaves_no_session_behind() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    assert!(stack.relay().start().await.stop().await.success()); // or making the slot would wait for the lock, too
    let ids = emit(&stack.db, 100, 10).await;
    let locked = stack.db.connect().await;
    locked.batch_execute("BEGIN; LOCK TABLE outbox.events").await.unwrap();
    let waiting = async |what: &str, expected: i64| {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                   AND wait_event_type = 'Lock' AND query LIKE '%outbox.pending_page_by_bytes%'";
        eventually(what, SOON, async || {
            let count: i64 = stack.db.query_one(sql, &[]).await.unwrap().get(0);
            if count == expected { Ok(()) } else { Err(count) }
        })
        .await;
    };
    let relay = stack.relay().spawn();
    waiting("the relay waits for the table", 1).await;
    relay.kill().await;
    waiting("its session is gone", 0).await;
    let _next = stack.relay().spawn();
    waiting("the next one waits for the table", 1).await;
    locked.batch_execute("COMMIT").await.unwrap();
    assert_eq!(repeated(&stack, &consumer, &ids).await, 0);
}

#[tokio::test]
async fn a_start_that_waits_for_the_table_says_who_has_locked_it() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    assert!(stack.relay().start().await.stop().await.success());
    let ids = emit(&stack.db, 10, 10).await;
    for repair in ["", "ALTER PUBLICATION outbox DROP TABLE outbox.events"] {
        stack.db.batch_execute(repair).await.unwrap();
        let locked = stack.db.connect().await;
        let pid: i32 = locked.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        locked.batch_execute("BEGIN; LOCK TABLE outbox.events").await.unwrap();
        let relay = stack.relay().spawn();
        let line = relay.wait_for_log("someone who has locked outbox.events").await;
        assert!(line.contains(&format!("pid={pid}")) && line.contains("seconds="), "{line}");
        locked.batch_execute("COMMIT").await.unwrap();
        relay.wait_for_log("streaming").await;
        assert!(relay.stop().await.success());
    }
    let _relay = stack.relay().start().await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, 0);
}

/// The moments are random, since there are more of them than names for them; the seed repeats them.
#[tokio::test]
async fn killed_at_any_moment_of_its_start_it_loses_nothing() {
    const KILLS: usize = 12;
    /// In flight and without a written verdict, at most, with the settings below.
    const UNSETTLED: usize = 3 * 13;
    let mut rng = seed::rng("killed_at_any_moment_of_its_start_it_loses_nothing");
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().set("in-flight", "13");
    let mut ids = Vec::new();
    for _ in 0..KILLS {
        ids.extend(emit(&stack.db, 50, 10).await);
        let starting = relay.spawn();
        // A start takes some 100 ms on two free cores.
        tokio::time::sleep(Duration::from_millis(rng.u64(0..150))).await;
        starting.kill().await;
    }
    let _last = relay.start().await;
    let repeated = repeated(&stack, &consumer, &ids).await;
    println!("{repeated} repeated after {KILLS} kills");
    assert!(repeated <= KILLS * UNSETTLED, "{repeated} repeated");
}
