//! The table goes, and another comes in its place.

use harness::Stack;

use super::{Load, emit, relay, run, wait_until_sent};

#[tokio::test]
async fn an_extension_that_is_dropped_and_created_again_is_read_from_as_if_nothing_had_been() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).set("check-interval", "500ms").start().await;
    let topic = |topic: &str| consumer.deliveries().iter().filter(|d| d.routing_key == topic).count();
    let load = Load::start(stack.db.url());
    load.goes_on(200).await;
    harness::eventually("the old table's events", super::LATER, async || match topic("load") {
        1.. => Ok(()),
        count => Err(count),
    })
    .await;
    run(&stack.db, "DROP EXTENSION outbox").await;
    load.stop().await;
    run(&stack.db, "CREATE EXTENSION outbox").await;

    for n in 0..20 {
        emit(&stack.db, &format!("key {}", n % 5), n).await;
    }
    wait_until_sent(&stack.db, 20).await;
    harness::eventually("the new table's events", super::LATER, async || match topic("t") {
        20.. => Ok(()),
        count => Err(count),
    })
    .await;
    assert_eq!(relay.try_exit(), None);
}

#[tokio::test]
async fn an_idle_relay_outlives_a_new_extension_too() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = relay(&stack).set("check-interval", "500ms").start().await;
    run(&stack.db, "DROP EXTENSION outbox; CREATE EXTENSION outbox").await;
    let id = emit(&stack.db, "k", 1).await;
    wait_until_sent(&stack.db, 1).await;
    assert_eq!(consumer.wait_for(1).await[0].id, id);
}

#[tokio::test]
async fn a_dropped_extension_is_told_with_what_to_do() {
    let stack = Stack::new().await;
    let relay = relay(&stack).set("check-interval", "500ms").start().await;
    run(&stack.db, "DROP EXTENSION outbox").await;
    let line = relay.wait_for_log("the extension outbox is not installed").await;
    assert!(line.contains("CREATE EXTENSION outbox") && line.contains(stack.db.name()), "{line}");
    assert_eq!(relay.try_exit(), None);
}
