//! SIGKILL between each two steps of the order of durability: publish, confirm, write-back, acknowledgement.

use harness::{
    Direction::{FromClient, FromServer},
    Proxy, SOON, Stack, eventually,
};

use super::{Locked, emit, repeated, wait_for_sent};

const EVENTS: usize = 200;

#[tokio::test]
async fn killed_before_the_confirms_it_publishes_those_events_once_more() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let relay = stack.relay().set("amqp-url", &stack.vhost.url_at(proxy.port())).start().await;
    proxy.hold(FromServer);
    let ids = emit(&stack.db, EVENTS, EVENTS).await;
    consumer.wait_for(EVENTS).await;
    relay.kill().await;
    drop(proxy);

    let _next = stack.relay().start().await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, EVENTS);
}

#[tokio::test]
async fn killed_during_the_drain_it_publishes_once_more_what_the_drain_waited_for() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let relay = stack.relay().set("amqp-url", &stack.vhost.url_at(proxy.port())).start().await;
    proxy.hold(FromServer);
    // Two of each key: the second of them has not left when the drain begins, and does not leave then.
    let ids = emit(&stack.db, 2 * EVENTS, EVENTS).await;
    consumer.wait_for(EVENTS).await;
    relay.terminate();
    relay.wait_for_log("draining").await;
    relay.kill().await;
    drop(proxy);

    let _next = stack.relay().start().await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, EVENTS);
}

#[tokio::test]
async fn killed_before_the_write_back_it_publishes_those_events_once_more_while_the_rows_are_still_locked() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = stack.relay().start().await;
    relay.pause();
    let ids = emit(&stack.db, EVENTS, 20).await;
    let locked = Locked::all_events(&stack).await;
    relay.resume();
    consumer.wait_for(EVENTS).await;
    locked.wait_for_write_back(&stack).await;
    relay.kill().await;

    let _next = stack.relay().start().await;
    consumer.wait_for(2 * EVENTS).await;
    locked.release().await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, EVENTS);
}

#[tokio::test]
async fn killed_before_the_acknowledgement_it_publishes_nothing_twice() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.db.port()).await;
    let relay = stack.relay().set("database-url", &stack.db.url_at(proxy.port())).start().await;
    let replication = proxy.saying("replication\0");
    replication.hold(FromClient);
    let before = confirmed(&stack).await;
    let ids = emit(&stack.db, EVENTS, 20).await;
    wait_for_sent(&stack, EVENTS).await;
    eventually("a status is held", SOON, async || match replication.held(FromClient) {
        0 => Err("nothing held"),
        _ => Ok(()),
    })
    .await;
    relay.kill().await;
    assert_eq!(confirmed(&stack).await, before, "the slot stands still");
    drop(proxy);

    let _next = stack.relay().start().await;
    assert_eq!(repeated(&stack, &consumer, &ids).await, 0);
}

async fn confirmed(stack: &Stack) -> String {
    let sql = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1";
    stack.db.query_one(sql, &[&stack.db.name()]).await.unwrap().get(0)
}
