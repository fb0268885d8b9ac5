//! An operator takes something away, and gives it back.

use harness::{Proxy, Stack};

use super::{
    IN_FLIGHT, check, check_arrivals, count,
    load::{Load, emit},
    relay, wait_for_rows, wait_for_slot,
};

#[tokio::test]
async fn a_permission_that_is_withdrawn_and_given_back_fails_no_event() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let user = format!("user_{}", stack.db.name());
    let permit = async |configure, write| stack.vhost.user(&user, "secret", configure, write, "").await;
    permit(".*", ".*").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let url = format!("amqp://{user}:secret@127.0.0.1:{}/{}", proxy.port(), stack.vhost.name());
    let relay = relay(&stack).set("amqp-url", &url).set("park-after", "300ms").start().await;
    let load = Load::start(&stack).await;
    let withdrawn = [Withdrawn::Declare, Withdrawn::Publish, Withdrawn::Enter];
    for what in &withdrawn {
        wait_for_rows(&stack, "status = 'SENT'", count(&stack, "true").await + 500).await;
        let mark = relay.mark();
        match what {
            Withdrawn::Declare => permit("", ".*").await,
            Withdrawn::Publish => permit(".*", "").await,
            Withdrawn::Enter => {
                let permission = format!("/api/permissions/{}/{user}", stack.vhost.name());
                stack.vhost.api("DELETE", &permission, None).await;
            }
        }
        proxy.cut(); // the broker remembers permissions for as long as a busy channel lives
        let refused = if matches!(what, Withdrawn::Enter) { "refuses virtual host" } else { "does not permit" };
        relay.wait_for_log_after(mark, refused).await;
        load.wait_for(500).await;
        assert_eq!(count(&stack, "attempts > 1 OR last_error IS NOT NULL").await, 0);
        permit(".*", ".*").await;
    }
    wait_for_rows(&stack, "status = 'SENT'", count(&stack, "true").await + 500).await;
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, withdrawn.len() * IN_FLIGHT).await;
}

enum Withdrawn {
    Declare,
    Publish,
    Enter,
}

#[tokio::test]
async fn a_broker_that_lets_the_relay_in_and_takes_nothing_from_it_pins_no_log() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let user = format!("user_{}", stack.db.name());
    let permit = async |write| stack.vhost.user(&user, "secret", ".*", write, "").await;
    permit("").await;
    // Longer than any pause between two attempts to connect.
    let relay =
        relay(&stack).set("amqp-url", &stack.vhost.url_as(&user, "secret")).set("park-after", "6s").start().await;
    let emitted = emit(&stack.db, "refused", 0, 5000).await;
    relay.wait_for_log("parked").await;
    wait_for_slot(&stack, 100_000).await;
    assert_eq!(count(&stack, "status = 'PENDING' AND attempts = 0 AND last_error IS NULL").await, 5000);
    permit(".*").await;
    check(&stack, &consumer, &emitted, 0).await;
}

#[tokio::test]
async fn while_the_relays_own_exchange_is_gone_events_wait_for_it() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let url = stack.vhost.url_at(proxy.port());
    let relay = relay(&stack).set("amqp-url", &url).set("declare-exchange", "false").start().await;
    let load = Load::start(&stack).await;
    load.wait_for(500).await;

    let exchange = format!("/api/exchanges/{}/outbox", stack.vhost.name());
    // What is in flight when its bindings go, and the exchange does not yet, would be unroutable: gate that moment.
    proxy.refuse();
    proxy.cut();
    stack.vhost.api("DELETE", &exchange, None).await;
    proxy.accept();
    relay.wait_for_log("there is no exchange").await;
    load.wait_for(500).await;
    assert_eq!(count(&stack, "status = 'FAILED' OR attempts > 1 OR last_error IS NOT NULL").await, 0);

    proxy.refuse();
    proxy.cut();
    stack.vhost.exchange("outbox").await;
    consumer.bind("#").await;
    proxy.accept();
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, 2 * IN_FLIGHT).await;
}

#[tokio::test]
async fn an_exchange_that_the_relay_declares_again_fails_nothing_where_unroutable_events_are_retried() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack)
        .set("unroutable", "retry")
        .set("retry-base", "20ms")
        .set("retry-max", "100ms")
        .set("max-attempts", "1000")
        .start()
        .await;
    let load = Load::start(&stack).await;
    load.wait_for(500).await;
    let exchange = format!("/api/exchanges/{}/outbox", stack.vhost.name());
    stack.vhost.api("DELETE", &exchange, None).await;
    relay.wait_for_log("connected to the broker again").await;
    wait_for_rows(&stack, "status = 'PENDING' AND last_error = '312 NO_ROUTE'", 1).await;
    consumer.bind("#").await;
    let emitted = load.stop().await;
    wait_for_rows(&stack, "status = 'SENT'", emitted.len() as i64).await;
    check_arrivals(&consumer, &emitted, IN_FLIGHT).await;
}
