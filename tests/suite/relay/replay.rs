//! An operator's replay reaches the relay at once, without polling.

use harness::{SOON, Stack};

use super::{Row, emit, wait_for_counts, wait_for_status};

#[tokio::test]
async fn a_failed_event_is_delivered_after_its_queue_is_bound_and_it_is_replayed() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("bound").await;
    let _relay = stack.relay().start().await;
    let id = emit(&stack.db, "'unbound', '{}'::jsonb", &[]).await;
    let failed = wait_for_status(&stack.db, id, "FAILED").await;
    assert_eq!(failed.last_error.as_deref(), Some("312 NO_ROUTE"));

    consumer.bind("unbound").await;
    let replayed: bool = stack.db.query_one("SELECT outbox.replay($1)", &[&id]).await.unwrap().get(0);
    assert!(replayed);
    assert_eq!(consumer.wait_for(1).await[0].id, id, "the same id on every delivery");
    let sent = wait_for_status(&stack.db, id, "SENT").await;
    assert_eq!(sent, Row { status: "SENT".into(), attempts: 1, last_error: None, attempted: true, processed: true });
}

#[tokio::test]
async fn an_operators_plain_update_replays_many_and_keeps_their_order() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    stack
        .db
        .batch_execute("SELECT outbox.emit('t', to_jsonb(i), aggregate_type => 'a', aggregate_id => 'k') FROM generate_series(1, 50) i")
        .await
        .unwrap();
    wait_for_counts(&stack.db, (0, 50, 0), SOON).await;

    stack.db.batch_execute("UPDATE outbox.events SET status = 'PENDING' WHERE payload::text::int > 40").await.unwrap();

    let deliveries = consumer.wait_for(60).await;
    wait_for_counts(&stack.db, (0, 50, 0), SOON).await;
    let numbers: Vec<_> = deliveries.iter().skip(50).map(|delivery| delivery.json()).collect();
    assert_eq!(numbers, (41..=50).map(serde_json::Value::from).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_replay_says_how_often_the_event_was_replayed_and_so_does_its_redelivery() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    let id = emit(&stack.db, "'t', '{}'::jsonb, headers => '{\"x-outbox-replay\": 7}'", &[]).await;
    for replay in [None, Some(1), Some(2)] {
        if replay.is_some() {
            stack.db.query_one("SELECT outbox.replay($1)", &[&id]).await.unwrap();
        }
        let deliveries = consumer.wait_for(replay.unwrap_or(0) as usize + 1).await;
        assert_eq!(deliveries.last().unwrap().replay(), replay);
        wait_for_status(&stack.db, id, "SENT").await;
    }

    // A relay that dies before it can write the verdict: the next one delivers the same again.
    let refuse = "SET outbox.allow_undumped_changes = on;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON outbox.events
            FOR EACH ROW WHEN (new.status = 'SENT') EXECUTE FUNCTION refuse()";
    stack.db.batch_execute(refuse).await.unwrap();
    stack.db.query_one("SELECT outbox.replay($1)", &[&id]).await.unwrap();
    consumer.wait_for(4).await;
    relay.kill().await;
    stack.db.batch_execute("DROP TRIGGER refuse ON outbox.events").await.unwrap();
    let _relay = stack.relay().start().await;
    wait_for_status(&stack.db, id, "SENT").await;
    let replays: Vec<_> = consumer.wait_for(5).await.iter().map(harness::Delivery::replay).collect();
    assert_eq!(replays, [None, Some(1), Some(2), Some(3), Some(3)]);
}

#[tokio::test]
async fn a_replay_that_is_rolled_back_delivers_nothing() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    emit(&stack.db, "'first', '{}'::jsonb", &[]).await;
    wait_for_counts(&stack.db, (0, 1, 0), SOON).await;
    stack.db.batch_execute("BEGIN; UPDATE outbox.events SET status = 'PENDING'; ROLLBACK").await.unwrap();
    emit(&stack.db, "'second', '{}'::jsonb", &[]).await;
    wait_for_counts(&stack.db, (0, 2, 0), SOON).await;
    assert_eq!(consumer.count(), 2);
}

#[tokio::test]
async fn a_role_without_any_right_that_calls_for_passes_all_the_time_gets_few() {
    const CALLS: usize = 2000;
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().set("log", "info,relay=debug").start().await;
    let role = format!("{}_nobody", stack.db.name());
    stack.db.batch_execute(&format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN")).await.unwrap();
    let nobody = stack.db.connect_as(&role).await;
    for _ in 0..CALLS {
        nobody.batch_execute("SELECT pg_logical_emit_message(true, 'outbox', 'replay')").await.unwrap();
    }
    let id = emit(&stack.db, "'t', '1'", &[]).await;
    consumer.wait_for_ids(&[id], SOON).await;
    let passes = relay.log_lines().iter().filter(|line| line.contains("read the table")).count();
    println!("{CALLS} calls, {passes} passes");
    assert!(passes < CALLS / 2, "{passes} passes");
}
