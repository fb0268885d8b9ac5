//! A part of the WAL that the publication left out: what came in it goes before what is streamed after it.

use harness::{Proxy, Stack};

use super::{account::assert_in_order, emit, number, relay, run, wait_until, wait_until_sent};

const DROP: &str = "ALTER PUBLICATION outbox DROP TABLE outbox.events";
const ADD: &str = "ALTER PUBLICATION outbox ADD TABLE outbox.events";
const IS_PUBLISHED: &str = "EXISTS (SELECT FROM pg_publication_tables WHERE pubname = 'outbox')";

/// Emits the numbers of a range for one key, from one client.
async fn emit_range(stack: &Stack, range: std::ops::RangeInclusive<i64>) {
    for n in range {
        emit(&stack.db, "k", n).await;
    }
}

#[tokio::test]
async fn what_came_while_the_table_was_not_published_goes_before_what_is_streamed_after_it() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = relay(&stack).start().await;
    emit_range(&stack, 1..=3).await;
    wait_until_sent(&stack.db, 3).await;
    // Long before the relay looks at its publication by itself.
    run(&stack.db, DROP).await;
    emit_range(&stack, 4..=16).await;
    run(&stack.db, ADD).await;
    emit_range(&stack, 17..=26).await;
    wait_until_sent(&stack.db, 26).await;
    assert_in_order(&consumer.wait_for(26).await);
}

#[tokio::test]
async fn what_came_before_a_repair_while_the_broker_was_away_goes_before_what_came_after_it() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let broker = stack.vhost.url_at(proxy.port());
    let relay = relay(&stack).set("amqp-url", &broker).set("check-interval", "500ms").set("park-after", "1h");
    let relay = relay.start().await;
    emit_range(&stack, 1..=3).await;
    wait_until_sent(&stack.db, 3).await;

    proxy.refuse();
    proxy.cut();
    relay.wait_for_log("no connection to the broker").await;
    run(&stack.db, DROP).await;
    emit_range(&stack, 4..=16).await;
    wait_until(&stack.db, "the relay repairs its publication", IS_PUBLISHED).await;
    emit_range(&stack, 17..=26).await;
    proxy.accept();
    wait_until_sent(&stack.db, 26).await;
    assert_in_order(&consumer.wait_for(26).await);
}

#[tokio::test]
async fn a_publication_that_leaves_columns_out_is_repaired_and_keeps_order() {
    let stack = Stack::new().await;
    if number(&stack.db, "current_setting('server_version_num')").await < 150_000 {
        return; // before PostgreSQL 15, a publication has all columns
    }
    let consumer = stack.consumer("#").await;
    let relay = relay(&stack).start().await;
    emit_range(&stack, 1..=3).await;
    wait_until_sent(&stack.db, 3).await;
    run(&stack.db, "ALTER PUBLICATION outbox SET TABLE outbox.events (id, topic)").await;
    emit_range(&stack, 4..=16).await;
    relay.wait_for_log("it is repaired").await;
    emit_range(&stack, 17..=26).await;
    wait_until_sent(&stack.db, 26).await;
    assert_in_order(&consumer.wait_for(26).await);
    assert!(!relay.log_text().contains("the session ended"));
}
