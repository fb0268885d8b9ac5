//! The node itself goes: killed, stopped, or out of memory. The tests take turns with one node.

use harness::{Postgres, Proxy, RabbitMq, Stack};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::{IN_FLIGHT, check, count, load::Load, queue, relay, wait_for_rows, wait_for_slot};

/// What the node takes at most.
pub(super) const MAX_MESSAGE_BYTES: usize = 65_536;

/// What may be held back of the WAL while the broker is away: some segments' worth, not the outage's.
const WAL_BYTES: i64 = 4_000_000;

pub(super) async fn node() -> MutexGuard<'static, RabbitMq> {
    static NODE: OnceCell<Mutex<RabbitMq>> = OnceCell::const_new();
    let limit = MAX_MESSAGE_BYTES.to_string();
    let start = async || Mutex::new(RabbitMq::private().set("max_message_size", &limit).start().await);
    NODE.get_or_init(start).await.lock().await
}

#[tokio::test]
async fn a_broker_that_is_killed_under_load_and_started_again_loses_nothing() {
    let node = node().await;
    let stack = Stack::on(Postgres::shared().await, &node).await;
    queue(&stack, "#").await;
    let relay = relay(&stack).set("park-after", "1h").start().await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "status = 'SENT'", 500).await;

    node.kill().await;
    let line = relay.wait_for_log("Connection refused").await;
    let why = ["trying again", &format!("127.0.0.1:{}", node.amqp_port()), "tries=", "for="];
    assert!(why.iter().all(|part| line.contains(part)), "{line}");
    let mark = relay.mark();
    load.wait_for(500).await;
    load.pause();
    node.start().await;
    load.resume();
    relay.wait_for_log_after(mark, "connected to the broker").await;
    wait_for_rows(&stack, "status = 'SENT'", load.count() as i64 + 500).await;
    let emitted = load.stop().await;
    assert_eq!(count(&stack, "attempts > 1 OR status = 'FAILED'").await, 0);
    let consumer = stack.consumer_with("#").queue("#").start().await;
    check(&stack, &consumer, &emitted, IN_FLIGHT).await;
}

#[tokio::test]
async fn a_broker_that_is_stopped_for_long_under_load_pins_no_log_and_gets_all_in_order() {
    let node = node().await;
    let stack = Stack::on(Postgres::shared().await, &node).await;
    queue(&stack, "#").await;
    let relay = relay(&stack).set("park-after", "300ms").set("max-bytes", "900KiB").start().await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "status = 'SENT'", 500).await;

    node.stop().await;
    relay.wait_for_log("parked").await;
    load.wait_for(3000).await; // ten times what fits in memory
    wait_for_slot(&stack, WAL_BYTES).await;
    assert_eq!(count(&stack, "status = 'PENDING' AND attempts > 0 OR status = 'FAILED'").await, 0);
    let mark = relay.mark();
    load.pause();
    node.start().await;
    load.resume();
    relay.wait_for_log_after(mark, "streaming").await;
    load.wait_for(500).await;
    let emitted = load.stop().await;
    let consumer = stack.consumer_with("#").queue("#").start().await;
    check(&stack, &consumer, &emitted, IN_FLIGHT).await;
}

#[tokio::test]
async fn a_short_memory_alarm_only_makes_events_wait() {
    let node = node().await;
    let stack = Stack::on(Postgres::shared().await, &node).await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).set("park-after", "1h").set("confirm-timeout", "500ms").start().await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "status = 'SENT'", 500).await;

    node.ctl(&["set_vm_memory_high_watermark", "0"]).await;
    relay.wait_for_log("the broker has blocked publishing").await;
    load.wait_for(1000).await; // for longer than the confirm timeout, which must not count now
    node.ctl(&["set_vm_memory_high_watermark", "0.6"]).await;
    relay.wait_for_log("the broker takes messages again").await;
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, 0).await;
    assert!(!relay.log_text().contains("no connection to the broker"), "the connection was kept");
}

#[tokio::test]
async fn a_long_memory_alarm_parks_the_relay_and_repeats_nothing() {
    let node = node().await;
    let stack = Stack::on(Postgres::shared().await, &node).await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).set("park-after", "300ms").set("confirm-timeout", "500ms").start().await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "status = 'SENT'", 500).await;

    node.ctl(&["set_vm_memory_high_watermark", "0"]).await;
    relay.wait_for_log("parked").await;
    load.wait_for(1000).await;
    wait_for_slot(&stack, WAL_BYTES).await;
    let mark = relay.mark();
    node.ctl(&["set_vm_memory_high_watermark", "0.6"]).await;
    relay.wait_for_log_after(mark, "streaming").await;
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, 0).await;
}

#[tokio::test]
async fn a_connection_cut_during_a_memory_alarm_is_made_again_and_waits() {
    let node = node().await;
    let stack = Stack::on(Postgres::shared().await, &node).await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let url = stack.vhost.url_at(proxy.port());
    let relay = relay(&stack).set("amqp-url", &url).set("park-after", "300ms").set("confirm-timeout", "500ms");
    let relay = relay.start().await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "status = 'SENT'", 500).await;

    node.ctl(&["set_vm_memory_high_watermark", "0"]).await;
    for _ in 0..2 {
        relay.wait_for_log("the broker has blocked publishing").await;
        let mark = relay.mark();
        proxy.cut();
        relay.wait_for_log_after(mark, "the broker has blocked publishing").await;
        load.wait_for(500).await;
        assert_eq!(count(&stack, "attempts > 1 OR last_error IS NOT NULL").await, 0);
    }
    wait_for_slot(&stack, WAL_BYTES).await;
    node.ctl(&["set_vm_memory_high_watermark", "0.6"]).await;
    let emitted = load.stop().await;
    check(&stack, &consumer, &emitted, 2 * IN_FLIGHT).await;
}
