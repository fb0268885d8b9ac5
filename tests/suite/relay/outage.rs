//! The broker or the database goes away and comes back.

use std::time::Duration;

use harness::{Postgres, RabbitMq, Relay, SOON, Shutdown, Stack, eventually};

use super::{counts, slot_lag, wait_for_counts};

/// A backlog of 30,000 events through a slow machine.
const DRAINED: Duration = Duration::from_secs(90);

#[tokio::test]
async fn a_broker_outage_costs_no_attempt_holds_no_wal_and_loses_nothing() {
    let rabbitmq = RabbitMq::private().start().await;
    let stack = Stack::on(Postgres::shared().await, &rabbitmq).await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().set("park-after", "300ms").start().await;
    let queue = consumer.queue().to_owned();
    drop(consumer);

    rabbitmq.kill().await;
    stack.db.batch_execute("SELECT outbox.emit('t', to_jsonb(i)) FROM generate_series(1, 30000) i").await.unwrap();
    relay.wait_for_log("parked").await;
    eventually("the slot moves on although nothing is published", SOON, async || match slot_lag(&stack).await {
        0..1_000_000 => Ok(()),
        lag => Err(lag),
    })
    .await;
    assert_eq!(counts(&stack.db).await, (30000, 0, 0));

    let mark = relay.mark();
    rabbitmq.start().await;
    relay.wait_for_log_within(DRAINED, mark, "streaming").await;
    wait_for_counts(&stack.db, (0, 30000, 0), SOON).await;
    let sql = "SELECT count(*) FROM outbox.events WHERE attempts <> 1";
    let more: i64 = stack.db.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(more, 0, "an outage is no attempt");
    eventually("the queue has them all", SOON, async || {
        let path = format!("/api/queues/{}/{queue}", stack.vhost.name());
        let messages = stack.vhost.api("GET", &path, None).await["messages"].as_i64();
        if messages == Some(30000) { Ok(()) } else { Err(messages) }
    })
    .await;
}

#[tokio::test]
async fn a_database_that_crashes_and_restarts_is_streamed_from_again() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    stack.db.batch_execute("SELECT outbox.emit('t', to_jsonb(i)) FROM generate_series(1, 1000) i").await.unwrap();
    consumer.wait_for(1000).await;

    let mark = relay.mark();
    postgres.stop(Shutdown::Immediate).await;
    postgres.start().await;
    relay.wait_for_log_after(mark, "streaming").await;
    let db = stack.db.connect().await;
    db.batch_execute("SELECT outbox.emit('t', to_jsonb(i)) FROM generate_series(1, 1000) i").await.unwrap();
    wait_for_counts(&db, (0, 2000, 0), SOON).await;
    assert_eq!(consumer.wait_for_events(2000, SOON).await.len(), 2000);
}

#[tokio::test]
async fn a_dropped_slot_is_made_again_and_loses_nothing() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    relay.kill().await;
    let drop_slot = format!(
        "SELECT pg_drop_replication_slot('{0}') FROM pg_replication_slots WHERE slot_name = '{0}' AND NOT active",
        stack.db.name()
    );
    stack.db.batch_execute("SELECT outbox.emit('t', to_jsonb(i)) FROM generate_series(1, 100) i").await.unwrap();
    eventually("the slot is dropped", SOON, async || {
        stack.db.batch_execute(&drop_slot).await.unwrap();
        let left: i64 = stack
            .db
            .query_one("SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1", &[&stack.db.name()])
            .await
            .unwrap()
            .get(0);
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    let _relay = stack.relay().start().await;
    wait_for_counts(&stack.db, (0, 100, 0), SOON).await;
    assert_eq!(consumer.wait_for(100).await.len(), 100);
}

/// Starts a relay after 1,000 events of one key, and a log that is long.
async fn after_a_long_log(stack: &Stack) -> Relay {
    stack.relay().start().await.stop().await;
    let emit = "SELECT outbox.emit('t', to_jsonb(n), aggregate_type => 'order', aggregate_id => '1') FROM generate_series(1, 1000) AS n";
    stack.db.batch_execute(emit).await.unwrap();
    let filler = "SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) FROM generate_series(1, 40)";
    stack.db.batch_execute(filler).await.unwrap();
    stack.relay().spawn()
}

#[tokio::test]
async fn a_long_log_is_not_streamed_and_what_it_held_comes_from_the_table_in_order_and_once() {
    let postgres = Postgres::private().start().await; // whose log nobody else writes
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let relay = after_a_long_log(&stack).await;

    relay.wait_for_log("going on behind it").await;
    let next = "SELECT outbox.emit('t', to_jsonb(1001), aggregate_type => 'order', aggregate_id => '1')";
    stack.db.batch_execute(next).await.unwrap();
    wait_for_counts(&stack.db, (0, 1001, 0), SOON).await;
    let arrived: Vec<_> = consumer.wait_for(1001).await.iter().map(|delivery| delivery.json()).collect();
    assert_eq!(arrived, (1..=1001).collect::<Vec<i32>>());
    assert!(relay.stop().await.success());
    let again = stack.relay().start().await;
    assert!(!again.log_text().contains("going on behind it"), "the slot stands at the end of the WAL");
}

#[tokio::test]
async fn a_long_log_is_streamed_while_a_transaction_is_open_whose_commit_could_be_missed() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    stack.relay().start().await.stop().await; // makes the slot, which would wait
    let mut older = stack.db.connect().await;
    let open = older.transaction().await.unwrap();
    open.batch_execute("SELECT outbox.emit('t', to_jsonb(0))").await.unwrap();
    let relay = after_a_long_log(&stack).await;

    relay.wait_for_log("streaming all of it").await;
    wait_for_counts(&stack.db, (0, 1000, 0), SOON).await;
    open.commit().await.unwrap();
    wait_for_counts(&stack.db, (0, 1001, 0), SOON).await;
    assert_eq!(consumer.wait_for(1001).await.len(), 1001);
}

#[tokio::test]
async fn a_publication_that_was_dropped_and_made_again_loses_nothing() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    let emit = |n: i32| format!("SELECT outbox.emit('t', to_jsonb({n}))");
    stack.db.batch_execute(&emit(1)).await.unwrap();
    wait_for_counts(&stack.db, (0, 1, 0), SOON).await;

    stack.db.batch_execute("DROP PUBLICATION outbox").await.unwrap();
    stack.db.batch_execute(&emit(2)).await.unwrap();
    wait_for_counts(&stack.db, (0, 2, 0), SOON).await; // long before the next check_interval
    stack.db.batch_execute(&emit(3)).await.unwrap();
    wait_for_counts(&stack.db, (0, 3, 0), SOON).await;
    let arrived: Vec<_> = consumer.wait_for(3).await.iter().map(|delivery| delivery.json()).collect();
    assert_eq!(arrived, [1, 2, 3]);
}

#[tokio::test]
async fn a_standby_outlives_a_restart_of_the_database() {
    let postgres = Postgres::private().start().await;
    let stack = Stack::on(&postgres, RabbitMq::shared().await).await;
    let consumer = stack.consumer("#").await;
    let first = stack.relay().start().await;
    let second = stack.relay().spawn();
    second.wait_for_log("standby").await;

    postgres.stop(Shutdown::Immediate).await;
    second.wait_for_log("no connection to the database; trying again").await;
    first.kill().await;
    postgres.start().await;
    second.wait_for_log("streaming").await;
    let db = stack.db.connect().await;
    db.batch_execute("SELECT outbox.emit('t', '{}'::jsonb)").await.unwrap();
    consumer.wait_for(1).await;
    wait_for_counts(&db, (0, 1, 0), SOON).await;
}
