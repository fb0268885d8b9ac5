//! A queue with a limit is full, because its consumer has stopped, and nacks what comes; other queues take theirs.

use serde_json::json;

use crate::shop::Shop;

pub(crate) async fn play() {
    // A night is short: this relay gives up after two minutes instead of an hour.
    let shop = Shop::open("A queue is full", &[], &[("retry-for", "2m"), ("max-attempts", "5")]).await;
    let at = &shop.terminal;
    let limited = json!({ "durable": true, "arguments": { "x-max-length": 300, "x-overflow": "reject-publish" } });
    let vhost = shop.vhost.name();
    shop.vhost.api("PUT", &format!("/api/queues/{vhost}/invoices"), Some(&limited)).await;
    let bind = json!({ "routing_key": "invoices.*" });
    shop.vhost.api("POST", &format!("/api/bindings/{vhost}/e/outbox/q/invoices"), Some(&bind)).await;
    let consumer = shop.consumer("orders", "orders.*").await;
    let orders = shop.take_orders(&["orders.created", "invoices.created"]).await;
    at.happens(
        "10 orders and 10 invoices a second; the invoices' consumer has crashed, and its queue takes 300 messages",
    );

    shop.pager.rings("OutboxEventsDoNotLeave").await;
    at.types("curl --silent $RELAY/readyz");
    at.types("outbox-relay status");
    let holding = at.types("outbox-relay events --holding --limit 5");
    at.types(&format!("outbox-relay events {}", Shop::first_id(&holding)));
    shop.relays_warnings();
    let list = ["list_queues", "--quiet", "--vhost", vhost, "name", "messages", "consumers", "arguments"];
    at.shows(&format!("rabbitmqctl {}", list.join(" ")), &shop.rabbitmq.ctl(&list).await);
    shop.pager.rings("OutboxEventsFailed").await;
    at.types("psql $DATABASE_URL -c 'SELECT topic, last_error, failed, keys_held FROM outbox.failures()'");
    at.happens("the invoices' consumer is started again");
    let invoices =
        shop.vhost.consumer("outbox", "invoices.*").existing_queue("invoices").without_bodies().start().await;
    shop.sees("what was nacked has been tried again", "retrying = 0 AND coalesce(oldest_pending, '0') < '5 s'").await;
    at.types("outbox-relay status");
    at.types("outbox-relay replay --topic invoices.created --error-like '%nack%' --dry-run");
    at.types("outbox-relay replay --topic invoices.created --error-like '%nack%' --yes");
    shop.pager.is_quiet().await;
    at.types("outbox-relay status");
    at.types("psql $DATABASE_URL -c 'SELECT at, action, events, who, role FROM outbox.audit'");
    let events = orders.close();
    shop.account(&events, &[&consumer, &invoices]).await;
}
