//! docs/migrate.md: another outbox is taken over while applications insert.

mod debezium;
mod debezium_kafka;
mod inserts;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use harness::{Connection, Delivery, SOON, Stack, eventually};
use lapin::{
    BasicProperties, Channel, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use tokio::task::JoinHandle;

use self::inserts::{Inserts, numbers};
use super::wait_for_counts;
use crate::documents::sql_under;

#[tokio::test]
async fn a_table_with_a_poller_is_taken_over_while_applications_insert_and_nothing_is_lost_doubled_or_out_of_order() {
    let stack = Stack::new().await;
    let blocks = sql_under("docs/migrate.md", "## From a table and a poller");
    let [table, function, switch, back] = &blocks[..] else { panic!("{blocks:?}") };
    stack.db.batch_execute(table).await.unwrap();
    stack.vhost.exchange("outbox").await;
    let consumer = stack.consumer("#").await;
    let poller = Poller::start(&stack).await;
    let insert = "INSERT INTO outbox_messages (routing_key, order_id, body)
                  VALUES ('order.moved', $1, jsonb_build_object('order', $1::bigint, 'n', $2::bigint)) RETURNING id";
    let inserts = Inserts::start(&stack.db, insert).await;
    inserts.wait_for_more().await;
    eventually("the poller delivers", SOON, async || {
        let count = consumer.count();
        if count > 50 { Ok(()) } else { Err(count) }
    })
    .await;
    let _relay = stack.relay().start().await;
    stack.db.batch_execute(function).await.unwrap();
    poller.stop().await;
    inserts.wait_for_more().await; // a backlog that nobody has published

    stack.db.batch_execute(switch).await.unwrap();
    inserts.wait_for_more().await;
    let inserted = inserts.stop().await;
    consumer.wait_for(inserted.values().map(Vec::len).sum()).await;
    let taken_over: i64 = stack.db.query_one("SELECT count(*) FROM outbox.events", &[]).await.unwrap().get(0);
    wait_for_counts(&stack.db, (0, taken_over, 0), SOON).await;
    assert_eq!(numbers(consumer.deliveries().iter().map(Delivery::json)), inserted);

    // What applications say to insert a message once.
    let again = "INSERT INTO outbox_messages (id, routing_key, order_id, body) OVERRIDING SYSTEM VALUE
                 SELECT id, routing_key, order_id, body FROM outbox_messages LIMIT 1 ON CONFLICT DO NOTHING";
    assert_eq!(stack.db.execute(again, &[]).await.unwrap(), 0);
    let events: i64 = stack.db.query_one("SELECT count(*) FROM outbox.events", &[]).await.unwrap().get(0);
    assert_eq!(events, taken_over);

    stack.db.batch_execute(back).await.unwrap();
    let row = stack.db.query_one(&format!("{insert} , sent_at IS NULL"), &[&1_i64, &1_i64]).await.unwrap();
    assert!(row.get::<_, bool>(1), "it is the poller's again");
    let events: i64 = stack.db.query_one("SELECT count(*) FROM outbox.events", &[]).await.unwrap().get(0);
    assert_eq!(events, taken_over);
}

/// What people write by hand.
struct Poller {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Poller {
    async fn start(stack: &Stack) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (db, is_stopped) = (stack.db.connect().await, Arc::clone(&stop));
        let broker = lapin::Connection::connect(&stack.vhost.url(), ConnectionProperties::default()).await.unwrap();
        let channel = broker.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let task = tokio::spawn(async move {
            while !is_stopped.load(Ordering::Relaxed) {
                publish_some(&db, &channel).await;
            }
            broker.close(200, "done".into()).await.unwrap();
        });
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

async fn publish_some(db: &Connection, channel: &Channel) {
    let read = "SELECT id, routing_key, body::text FROM outbox_messages WHERE sent_at IS NULL ORDER BY id LIMIT 20";
    for row in db.query(read, &[]).await.unwrap() {
        let (id, routing_key, body): (i64, String, String) = (row.get(0), row.get(1), row.get(2));
        let properties = BasicProperties::default().with_delivery_mode(2);
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish("outbox".into(), routing_key.into(), options, body.as_bytes(), properties);
        sent.await.unwrap().await.unwrap();
        db.execute("UPDATE outbox_messages SET sent_at = now() WHERE id = $1", &[&id]).await.unwrap();
    }
}
