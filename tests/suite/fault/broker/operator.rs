//! An operator takes something away, and gives it back.

use harness::{Proxy, Stack};
use serde_json::json;

use super::{
    IN_FLIGHT, check, count,
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
    permit(".*").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let url = format!("amqp://{user}:secret@127.0.0.1:{}/{}", proxy.port(), stack.vhost.name());
    // Longer than any pause between two attempts to connect.
    let relay = relay(&stack).set("amqp-url", &url).set("park-after", "6s").start().await;
    permit("").await;
    proxy.cut(); // the broker remembers permissions for as long as a busy channel lives
    let emitted = emit(&stack.db, "refused", 0, 5000).await;
    relay.wait_for_log("parked").await;
    wait_for_slot(&stack, 100_000).await;
    assert_eq!(count(&stack, "status = 'PENDING' AND attempts = 0 AND last_error IS NULL").await, 5000);
    permit(".*").await;
    check(&stack, &consumer, &emitted, 0).await;
}

/// A relay behind a proxy loses its exchange while it is away.
async fn loses_its_exchange(declare_exchange: &str) {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let url = stack.vhost.url_at(proxy.port());
    let relay = relay(&stack).set("amqp-url", &url).set("declare-exchange", declare_exchange).start().await;
    let load = Load::start(&stack).await;
    load.wait_for(500).await;

    // What is in flight when its bindings go, and the exchange does not yet, would be unroutable: gate that moment.
    proxy.refuse();
    proxy.cut();
    stack.vhost.api("DELETE", &exchange(&stack), None).await;
    proxy.accept();
    let line = relay.wait_for_log("there is no exchange").await;
    assert!(line.contains("with its bindings"), "what to do: {line}");
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

fn exchange(stack: &Stack) -> String {
    format!("/api/exchanges/{}/outbox", stack.vhost.name())
}

#[tokio::test]
async fn while_the_relays_own_exchange_is_gone_events_wait_for_it() {
    loses_its_exchange("false").await;
}

#[tokio::test]
async fn an_exchange_that_the_relay_declared_at_its_start_is_not_made_anew_without_bindings() {
    loses_its_exchange("true").await;
}

#[tokio::test]
async fn an_exchange_that_is_deleted_while_the_relay_is_connected_is_waited_for() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).set("park-after", "300ms").start().await;
    let mut emitted = emit(&stack.db, "before", 0, 50).await;
    wait_for_rows(&stack, "status = 'SENT'", 50).await;
    stack.vhost.api("DELETE", &exchange(&stack), None).await;
    emitted.extend(emit(&stack.db, "meanwhile", 0, 300).await);
    relay.wait_for_log("with its bindings").await;
    relay.wait_for_log("parked").await;
    wait_for_slot(&stack, 100_000).await;
    assert_eq!(count(&stack, "status = 'PENDING' AND attempts = 0 AND last_error IS NULL").await, 300);

    // As another type, it is not what the relay's events were meant for.
    let fanout = json!({ "type": "fanout", "durable": true });
    stack.vhost.api("PUT", &exchange(&stack), Some(&fanout)).await;
    relay.wait_for_log("is not what the relay declares").await;
    // The exchange and its bindings come in one step, or the first events would find it without.
    stack.vhost.api("DELETE", &exchange(&stack), None).await;
    let definitions = json!({
        "exchanges": [{ "name": "outbox", "type": "topic", "durable": true, "auto_delete": false, "internal": false, "arguments": {} }],
        "bindings": [{ "source": "outbox", "destination": consumer.queue(), "destination_type": "queue", "routing_key": "#", "arguments": {} }],
    });
    relay.pause();
    stack.vhost.api("POST", &format!("/api/definitions/{}", stack.vhost.name()), Some(&definitions)).await;
    relay.resume();
    check(&stack, &consumer, &emitted, 2 * IN_FLIGHT).await;
}

#[tokio::test]
async fn a_vhost_that_is_deleted_and_made_again_empty_fails_no_event() {
    let stack = Stack::new().await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).set("amqp-url", &stack.vhost.url_at(proxy.port())).start().await;
    let before = emit(&stack.db, "before", 0, 50).await;
    check(&stack, &consumer, &before, 0).await;
    let vhost = format!("/api/vhosts/{}", stack.vhost.name());
    stack.vhost.api("DELETE", &vhost, None).await;
    let emitted = emit(&stack.db, "meanwhile", 0, 300).await;
    relay.wait_for_log("refuses virtual host").await;
    stack.vhost.api("PUT", &vhost, None).await;
    let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
    stack.vhost.api("PUT", &format!("/api/permissions/{}/guest", stack.vhost.name()), Some(&all)).await;
    relay.wait_for_log("there is no exchange").await;
    assert_eq!(count(&stack, "status = 'PENDING' AND attempts = 0 AND last_error IS NULL").await, 300);
    proxy.refuse();
    proxy.cut();
    let consumer = stack.consumer("#").await;
    proxy.accept();
    check(&stack, &consumer, &emitted, 0).await;
}
