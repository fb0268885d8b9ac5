//! Events of two keys are rejected, and the relay holds their keys: what comes later for these orders waits.

use uuid::Uuid;

use crate::shop::Shop;

pub(crate) async fn play() {
    let limit = [("max_message_size", "65536")];
    let shop = Shop::open("Two keys are stuck", &limit, &[("after-failed", "hold")]).await;
    let at = &shop.terminal;
    let consumer = shop.consumer("orders", "orders.created").await;
    consumer.bind("orders.paid").await;
    let orders = shop.take_orders(&["orders.created", "orders.paid"]).await;
    consumer.wait_for(100).await;
    at.happens(
        "order 4711 is refunded, for which no queue is bound; order 4712 has a remark of 100 kB, more than RabbitMQ \
         takes",
    );
    let refund = "SELECT outbox.emit('orders.refunded', '{\"order\": 4711}'::jsonb, aggregate_type => 'orders',
                         aggregate_id => '4711')";
    let refund: Uuid = shop.db.query_one(refund, &[]).await.expect("emit").get(0);
    let large = "SELECT outbox.emit('orders.created', jsonb_build_object('remark', repeat('x', 100000)),
                        aggregate_type => 'orders', aggregate_id => '4712')";
    let large: Uuid = shop.db.query_one(large, &[]).await.expect("emit").get(0);

    shop.pager.rings("OutboxEventsFailed").await;
    at.types("outbox-relay status");
    at.types("outbox-relay events --status FAILED");
    at.happens("the person on call goes back to bed: two events of a hundred; but what is behind them waits");
    shop.pager.rings("OutboxEventsDoNotLeave").await;
    at.types("curl --silent $RELAY/readyz");
    at.types("outbox-relay status");
    at.types("outbox-relay events --holding");
    let oldest = at.types("outbox-relay events --status PENDING --oldest --limit 3");
    at.types(&format!("outbox-relay events {}", Shop::first_id(&oldest)));
    at.types(&format!("outbox-relay events {refund}"));
    shop.checks();
    at.happens("the queue is bound for orders.refunded");
    consumer.bind("orders.refunded").await;
    at.types(&format!("outbox-relay replay {refund} --yes"));
    shop.sees("the refund is sent", "failed = 1").await;
    at.types(&format!("outbox-relay events {refund}"));
    at.types(&format!("outbox-relay events {large}"));
    at.types(&format!("outbox-relay release {large} --yes"));
    at.types("outbox-relay status");
    at.types(&format!("DATABASE_URL=$OWNER outbox-relay purge {large} --yes"));
    shop.pager.is_quiet().await;
    at.types("outbox-relay status");
    let mut events = orders.close();
    events.push(refund);
    shop.account(&events, &[&consumer]).await;
}
