//! The connection breaks.

use harness::{
    Direction::{FromClient, FromServer},
    Proxy, SOON, Stack, eventually, seed,
};

use super::{IN_FLIGHT, check, count, load::Load, relay};

const CUTS: usize = 20;

/// Cuts it in the middle of anything, from the handshake to a flood, on its way there or back.
async fn cut_again_and_again(proxy: &Proxy, rng: &mut fastrand::Rng) {
    for _ in 0..CUTS {
        let (direction, most) = if rng.bool() { (FromClient, 20_000) } else { (FromServer, 2000) };
        let (before, more) = (proxy.passed(direction), rng.u64(1..most));
        eventually("more bytes have passed", SOON, async || match proxy.passed(direction) - before {
            passed if passed >= more => Ok(()),
            passed => Err((passed, more)),
        })
        .await;
        proxy.cut();
    }
}

/// With `settings` of the relay.
async fn nothing_is_lost_by_cuts(test: &str, settings: &[(&str, &str)]) {
    let mut rng = seed::rng(test);
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let builder = relay(&stack).set("amqp-url", &stack.vhost.url_at(proxy.port()));
    let builder = settings.iter().fold(builder, |builder, (name, value)| builder.set(name, value));
    let _relay = builder.start().await;
    let load = Load::start(&stack).await;
    cut_again_and_again(&proxy, &mut rng).await;
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, CUTS * IN_FLIGHT).await;
    assert!(proxy.opened() > CUTS, "{} connections", proxy.opened());
}

#[tokio::test]
async fn a_connection_that_is_cut_again_and_again_repeats_only_what_was_unanswered() {
    nothing_is_lost_by_cuts("a_connection_that_is_cut_again_and_again_repeats_only_what_was_unanswered", &[]).await;
}

#[tokio::test]
async fn cuts_keep_a_keys_order_though_its_events_are_in_flight_together() {
    let pipelined = [("ordering", "pipelined")];
    nothing_is_lost_by_cuts("cuts_keep_a_keys_order_though_its_events_are_in_flight_together", &pipelined).await;
}

#[tokio::test]
async fn cuts_that_park_the_relay_every_time_lose_nothing() {
    let parking = [("park-after", "0s"), ("ordering", "pipelined"), ("max-bytes", "900KiB")];
    nothing_is_lost_by_cuts("cuts_that_park_the_relay_every_time_lose_nothing", &parking).await;
}

#[tokio::test]
async fn who_closed_the_channel_is_found_although_the_connection_is_cut_again_and_again() {
    let mut rng = seed::rng("who_closed_the_channel_is_found_although_the_connection_is_cut_again_and_again");
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let url = stack.vhost.url_at(proxy.port());
    let _relay = relay(&stack).set("amqp-url", &url).set("ordering", "pipelined").start().await;
    let load = Load::start(&stack).await;
    let culprits = async {
        let sql = "SELECT outbox.emit('nowhere', '1', exchange => 'no-such-exchange', aggregate_type => 'load',
                                      aggregate_id => 'load-0-1')";
        for _ in 0..CUTS {
            load.wait_for(30).await;
            stack.db.batch_execute(sql).await.unwrap();
        }
    };
    tokio::join!(culprits, cut_again_and_again(&proxy, &mut rng));
    let emitted = load.stop().await;
    // Each cut and each closed channel leaves as many unanswered.
    check(&stack, &consumer, &emitted, 2 * CUTS * IN_FLIGHT).await;
    let failed = "topic = 'nowhere' AND status = 'FAILED' AND attempts = 1 AND starts_with(last_error, '404')";
    assert_eq!(count(&stack, failed).await as usize, CUTS);
}

#[tokio::test]
async fn a_broker_that_refuses_connections_for_a_while_is_waited_for() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let url = stack.vhost.url_at(proxy.port());
    let relay = relay(&stack).set("amqp-url", &url).set("park-after", "300ms").start().await;
    let load = Load::start(&stack).await;
    load.wait_for(500).await;
    proxy.refuse();
    proxy.cut();
    relay.wait_for_log("parked").await;
    load.wait_for(1000).await;
    let mark = relay.mark();
    proxy.accept();
    relay.wait_for_log_after(mark, "streaming").await;
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, IN_FLIGHT).await;
}
