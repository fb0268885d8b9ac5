//! RabbitMQ stops under load for some minutes, and comes back.

use std::time::Duration;

use crate::shop::Shop;

/// How long after the cause was found RabbitMQ comes back.
const REPAIR: Duration = Duration::from_secs(150);

pub(crate) async fn play() {
    let shop = Shop::open("RabbitMQ stops", &[], &[]).await;
    let consumer = shop.consumer("orders", "orders.*").await;
    let orders = shop.take_orders(&["orders.created", "orders.paid"]).await;
    let at = &shop.terminal;
    consumer.wait_for(100).await;
    at.happens("20 events a second flow; RabbitMQ's process is killed");
    shop.rabbitmq.kill().await;

    shop.pager.rings("OutboxBrokerAway").await;
    at.types("curl --silent $RELAY/readyz");
    at.types("outbox-relay status");
    shop.checks();
    tokio::time::sleep(REPAIR).await;
    at.types("curl --silent $RELAY/readyz");
    at.happens("somebody starts RabbitMQ again");
    shop.rabbitmq.start().await;
    at.happens("RabbitMQ is up");
    let consumers = [consumer, shop.consumer("orders", "orders.*").await];
    shop.pager.is_quiet().await;
    at.types("curl --silent $RELAY/readyz");
    at.types("outbox-relay status");
    at.types("outbox-relay events --status FAILED");
    let events = orders.close();
    shop.account(&events, &consumers.each_ref()).await;
}
