//! A transaction far larger than memory, while small ones go on.
//!
//! With a million rows: `EVENTS=1000000 make test T=data::transaction`

use harness::{Postgres, RabbitMq, SOON, Stack, eventually};

use super::{assert_memory_was_bounded, count, ledger, size, wait_until_none_is_pending};

#[tokio::test]
async fn small_transactions_go_on_before_during_and_after_a_huge_one() {
    let events = size("EVENTS", 200_000);
    // Slots of other tests would wait for the huge transaction, longer than those tests do.
    let postgres = Postgres::private().set("fsync", "off"); // it does not crash here
    let (postgres, rabbitmq) = tokio::join!(postgres.start(), RabbitMq::shared());
    let stack = Stack::on(&postgres, rabbitmq).await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let relay = stack.relay().start().await;

    let (huge, small) = (stack.db.connect().await, stack.db.connect().await);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let emit_small = tokio::spawn(async move {
        let sql = "SELECT outbox.emit('small', to_jsonb($1::bigint), aggregate_type => 'small',
                                      aggregate_id => ($1 % 10)::text) FROM generate_series(1, 3)";
        let sql = small.prepare(sql).await.unwrap();
        let mut count = 0;
        // A small transaction every few milliseconds, as an application has them; at full speed it would be the flood.
        let mut pace = tokio::time::interval(std::time::Duration::from_millis(5));
        while !*stopped.borrow() {
            small.execute(&sql, &[&count]).await.unwrap();
            count += 1;
            pace.tick().await;
        }
        count
    });
    let sql = format!(
        "SELECT outbox.emit('huge', jsonb_build_object('n', i, 'text', repeat('x', 100)), aggregate_type => 'huge',
                            aggregate_id => (i % 1000)::text) FROM generate_series(1, {events}) i"
    );
    huge.batch_execute(&sql).await.unwrap();
    assert!(count(&stack.db, "topic = 'small' AND status = 'SENT'").await > 0, "small ones before it committed");
    eventually("the huge one arrives", SOON, async || {
        let sent = count(&stack.db, "topic = 'huge' AND status = 'SENT'").await;
        if sent > 0 { Ok(()) } else { Err(sent) }
    })
    .await;
    wait_until_none_is_pending(&stack.db, "topic = 'huge'").await;
    stop.send(true).unwrap();
    let small = 3 * emit_small.await.unwrap();

    wait_until_none_is_pending(&stack.db, "true").await;
    assert_eq!(count(&stack.db, "status = 'SENT' AND attempts = 1").await, events + small);
    ledger::wait_for_all(&stack.db, || consumer.ids()).await;
    ledger::check(&stack.db, &[&consumer.ids()], 0).await;
    assert_memory_was_bounded(&relay);
}
