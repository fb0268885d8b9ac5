//! What has a time of its own does not wait for the end of a backlog.

use harness::{SOON, Stack, eventually};

use super::count;

#[tokio::test]
async fn a_deferred_event_leaves_while_a_backlog_is_worked_off() {
    const BACKLOG: i64 = 40_000;
    let stack = Stack::new().await;
    let _consumer = stack.consumer_with("#").without_bodies().start().await;
    let emit = format!(
        "SELECT outbox.emit('late', '{{}}', available_at => clock_timestamp() + interval '10 ms');
         SELECT outbox.emit('backlog', to_jsonb(i)) FROM generate_series(1, {BACKLOG}) i"
    );
    stack.db.batch_execute(&emit).await.unwrap();
    let _relay = stack.relay().set("max-bytes", "600KiB").set("in-flight", "50").spawn();
    let pending = eventually("the deferred event is sent", SOON, async || {
        let row = "SELECT count(*) FILTER (WHERE topic = 'late' AND status = 'SENT'),
                          count(*) FILTER (WHERE topic = 'backlog' AND status = 'PENDING') FROM outbox.events";
        let row = stack.db.query_one(row, &[]).await.unwrap();
        let (sent, pending): (i64, i64) = (row.get(0), row.get(1));
        if sent == 1 { Ok(pending) } else { Err(pending) }
    })
    .await;
    assert!(pending > 0, "it waited for the end of the backlog");
    eventually("the backlog is sent", 4 * SOON, async || match count(&stack.db, "status = 'SENT'").await {
        sent if sent == BACKLOG + 1 => Ok(()),
        sent => Err(sent),
    })
    .await;
}

#[tokio::test]
async fn a_deferred_event_with_a_key_does_not_overtake_those_of_its_key_that_wait_in_a_backlog() {
    const BACKLOG: i64 = 40_000;
    let stack = Stack::new().await;
    let consumer = stack.consumer("key").await;
    let emit = |n: i32, arguments: &str| {
        format!("SELECT outbox.emit('key', to_jsonb({n}), aggregate_type => 'a', aggregate_id => 'k'{arguments})")
    };
    stack
        .db
        .batch_execute(&format!("SELECT outbox.emit('backlog', '{{}}') FROM generate_series(1, {BACKLOG})"))
        .await
        .unwrap();
    for n in 1..=3 {
        stack.db.batch_execute(&emit(n, "")).await.unwrap();
    }
    let later = emit(4, ", available_at => clock_timestamp() + interval '10 ms'");
    stack.db.batch_execute(&later).await.unwrap();
    let _relay = stack.relay().set("max-bytes", "600KiB").set("in-flight", "50").spawn();
    let arrived: Vec<_> = consumer.wait_for(4).await.iter().map(|delivery| delivery.json()).collect();
    assert_eq!(arrived, [1, 2, 3, 4]);
}
