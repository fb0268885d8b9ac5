//! Servers that say nothing any more, although their connections stand.

use std::time::Duration;

use harness::{Proxy, Stack, eventually};

use super::{http_port, wait_for_ready};

#[tokio::test]
async fn a_database_that_says_nothing_is_told_of_given_up_and_found_again() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.db.port()).await;
    let relay = stack.relay().set("database-url", &stack.db.url_at(proxy.port())).set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    wait_for_ready(port, 200, "delivering").await;

    proxy.stall();
    stack.db.batch_execute("SELECT outbox.emit('t', '1')").await.unwrap();
    wait_for_ready(port, 503, "PostgreSQL has said nothing for").await;
    eventually("the session ends", Duration::from_secs(90), async || {
        let lines = relay.log_lines();
        if lines.iter().any(|line| line.contains("the server has said nothing for 60 s")) { Ok(()) } else { Err(lines) }
    })
    .await;
    wait_for_ready(port, 503, "connect").await;

    proxy.resume();
    wait_for_ready(port, 200, "delivering").await;
    consumer.wait_for(1).await;
}

#[tokio::test]
async fn a_broker_that_answers_no_message_is_told_of_before_the_connection_is_given_up() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer("#").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let relay = stack.relay().set("amqp-url", &stack.vhost.url_at(proxy.port())).set("http-listen", "0").start().await;
    let port = http_port(&relay).await;
    wait_for_ready(port, 200, "delivering").await;

    proxy.stall();
    stack.db.batch_execute("SELECT outbox.emit('t', '1')").await.unwrap();
    wait_for_ready(port, 503, "RabbitMQ has answered no message for").await;
    proxy.resume();
    wait_for_ready(port, 200, "delivering").await;
}
