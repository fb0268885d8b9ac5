//! Many events, and no more memory than was allowed.

use std::{collections::HashSet, time::Duration};

use harness::{Postgres, RabbitMq, SOON, Stack, eventually};
use uuid::Uuid;

use super::{
    order::{NUMBERED, numbers_by_key},
    slot_lag, wait_for_counts,
};

const LONG: Duration = Duration::from_secs(300);

#[tokio::test]
async fn of_100_000_events_from_several_clients_exactly_the_committed_arrive_and_each_key_in_order() {
    const CLIENTS: usize = 4;
    let stack = Stack::new().await;
    stack.db.batch_execute(NUMBERED).await.unwrap();
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;

    let rng = harness::seed::rng("volume");
    let clients = (0..CLIENTS).map(|client| {
        let mut rng = fastrand::Rng::with_seed(rng.clone().u64(..) ^ client as u64);
        let url = stack.db.url().to_owned();
        tokio::spawn(async move {
            let mut db = harness::Connection::open(&url).await;
            let emit =
                db.prepare("SELECT emit_numbered('key-' || $1::int) FROM generate_series(1, $2::int)").await.unwrap();
            let mut committed: Vec<Uuid> = Vec::new();
            while committed.len() < 100_000 / CLIENTS {
                let transaction = db.transaction().await.unwrap();
                // One key a transaction: keys taken in different orders would deadlock.
                let (key, events) = (rng.i32(0..50), rng.i32(1..20));
                let ids = transaction.query(&emit, &[&key, &events]).await.unwrap();
                if rng.u32(0..10) == 0 {
                    transaction.rollback().await.unwrap();
                } else {
                    transaction.commit().await.unwrap();
                    committed.extend(ids.iter().map(|row| row.get::<_, Uuid>(0)));
                }
            }
            committed
        })
    });
    let mut committed = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        committed.extend(client.await.unwrap());
    }

    let deliveries = consumer.wait_for_ids(&committed, LONG).await;
    wait_for_counts(&stack.db, (0, committed.len() as i64, 0), LONG).await;
    assert_eq!(consumer.count(), committed.len(), "none twice");
    let arrived: HashSet<Uuid> = deliveries.iter().map(|delivery| delivery.id).collect();
    assert_eq!(arrived, committed.into_iter().collect());
    for (key, numbers) in numbers_by_key(&deliveries) {
        assert!(numbers.is_sorted(), "{key} out of order");
    }
    eventually("the slot's lag is gone", SOON, async || match slot_lag(&stack).await {
        0..65_536 => Ok(()),
        lag => Err(lag),
    })
    .await;
}

#[tokio::test]
async fn one_transaction_of_1_000_000_events_is_delivered_within_100_mb_of_memory() {
    const EVENTS: i64 = 1_000_000;
    // While this transaction is open, no slot can be made on its server.
    let (postgres, rabbitmq) = tokio::join!(Postgres::private().start(), RabbitMq::shared());
    let stack = Stack::on(&postgres, rabbitmq).await;
    let consumer = stack.consumer_with("#").without_bodies().start().await;
    let relay = stack.relay().start().await;
    let emit = "SELECT outbox.emit('t', jsonb_build_object('n', i, 'text', repeat('x', 100)), aggregate_type => 'a',
                                   aggregate_id => (i % 1000)::text)
                FROM generate_series(1, 1000000) i";
    stack.db.batch_execute(emit).await.unwrap();
    // The table is counted when they are there: counting it again and again takes most of a small machine.
    eventually("all have arrived", LONG, async || match consumer.count() {
        1_000_000.. => Ok(()),
        count => Err(count),
    })
    .await;
    wait_for_counts(&stack.db, (0, EVENTS, 0), SOON).await;
    let peak = relay.usage().peak_rss_bytes;
    println!("peak RSS {} kB", peak / 1024);
    assert!(peak < 100_000_000, "{peak} bytes");
    let mut ids = consumer.ids();
    assert_eq!(ids.len(), 1_000_000, "none twice");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1_000_000);
}
