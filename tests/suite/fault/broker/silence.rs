//! The connection stays, and nothing comes.

use harness::{
    Direction::{FromClient, FromServer},
    Proxy, Relay, SOON, Stack, eventually,
};

use super::{
    IN_FLIGHT, check, count,
    load::{KEYS, Load, emit},
    relay, wait_for_rows,
};

const ROUNDS: usize = 3;

/// What order lets be in flight together.
const ONE_OF_EACH_KEY: usize = KEYS as usize;

/// A relay behind a proxy, that waits for confirms for as long as `confirm_timeout` says.
async fn start(stack: &Stack, heartbeat_s: u32, confirm_timeout: &str) -> (Proxy, Relay) {
    let proxy = Proxy::to(stack.vhost.port()).await;
    let url = format!("{}?heartbeat={heartbeat_s}", stack.vhost.url_at(proxy.port()));
    let relay = relay(stack).set("amqp-url", &url).set("confirm-timeout", confirm_timeout).start().await;
    (proxy, relay)
}

#[tokio::test]
async fn a_stalled_connection_is_given_up_and_what_was_unanswered_is_repeated() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, relay) = start(&stack, 0, "500ms").await;
    let load = Load::start(&stack).await;
    load.wait_for(500).await;
    proxy.stall();
    relay.wait_for_log("has confirmed none of").await;
    load.wait_for(500).await;
    let mark = relay.mark();
    proxy.resume();
    relay.wait_for_log_after(mark, "connected to the broker").await;
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, IN_FLIGHT).await;
}

#[tokio::test]
async fn an_idle_connection_that_is_stalled_is_given_up_by_its_heartbeat() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, relay) = start(&stack, 1, "1h").await;
    proxy.stall();
    relay.wait_for_log("the broker has been silent for").await;
    let emitted = emit(&stack.db, "late", 0, 1000).await;
    proxy.resume();
    check(&stack, &consumer, &emitted, 0).await;
}

#[tokio::test]
async fn a_half_open_connection_is_given_up_and_another_one_made() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, relay) = start(&stack, 1, "1h").await;
    let load = Load::start(&stack).await;
    load.wait_for(500).await;
    proxy.strand();
    let mark = relay.mark();
    relay.wait_for_log_after(mark, "the broker has been silent for").await;
    relay.wait_for_log_after(mark, "connected to the broker").await;
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, IN_FLIGHT).await;
}

#[tokio::test]
async fn what_is_never_confirmed_is_published_again_and_never_failed() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, relay) = start(&stack, 0, "500ms").await;
    let mut emitted = Vec::new();
    for round in 0..ROUNDS {
        // What the last round has published twice may be confirmed before the consumer has it.
        let arrived = emitted.len() + round * ONE_OF_EACH_KEY;
        consumer.wait_for(arrived).await;
        proxy.hold(FromServer);
        let mark = relay.mark();
        emitted.extend(emit(&stack.db, &format!("round-{round}"), 0, 100).await);
        consumer.wait_for(arrived + ONE_OF_EACH_KEY).await;
        relay.wait_for_log_after(mark, "has confirmed none of").await;
        assert_eq!(count(&stack, "status = 'PENDING' AND attempts = 0 AND last_error IS NULL").await, 100);
        assert_eq!(consumer.count(), arrived + ONE_OF_EACH_KEY, "what is in flight, and no more");
        proxy.release(FromServer);
        wait_for_rows(&stack, "status = 'SENT'", emitted.len() as i64).await;
    }
    check(&stack, &consumer, &emitted, ROUNDS * ONE_OF_EACH_KEY).await;
    assert_eq!(consumer.count(), emitted.len() + ROUNDS * ONE_OF_EACH_KEY, "each that was not confirmed came twice");
}

#[tokio::test]
async fn confirms_that_come_late_but_in_time_repeat_nothing() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let (proxy, _relay) = start(&stack, 0, "1m").await;
    let load = Load::start(&stack).await;
    for _ in 0..5 {
        proxy.hold(FromServer);
        eventually("confirms are held", SOON, async || match proxy.held(FromServer) {
            0 => Err(proxy.passed(FromClient)),
            _ => Ok(()),
        })
        .await;
        load.wait_for(500).await;
        proxy.release(FromServer);
        let sent = count(&stack, "status = 'SENT'").await;
        wait_for_rows(&stack, "status = 'SENT'", sent + 200).await;
    }
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, 0).await;
}
