//! Most of a cluster goes, and with it the majority of a quorum queue.

use harness::{Postgres, RabbitMq, SOON, Stack, eventually};
use serde_json::json;

use super::{check, count, load::Load, relay, wait_for_rows, wait_for_slot};

#[tokio::test]
async fn a_quorum_queue_that_is_without_its_majority_for_a_while_fails_no_event_and_costs_none_an_attempt() {
    let nodes = RabbitMq::private().start_cluster(3).await;
    let [survivor, leader, third] = nodes.as_slice() else { panic!("three nodes") };
    let stack = Stack::on(Postgres::shared().await, survivor).await;
    let vhost = stack.vhost.name();
    stack.vhost.exchange("outbox").await;
    let queue = format!("/api/queues/{vhost}/load");
    let arguments = json!({ "x-queue-type": "quorum", "x-quorum-initial-group-size": 3 });
    leader.api("PUT", &queue, Some(&json!({ "durable": true, "arguments": arguments }))).await;
    stack
        .vhost
        .api("POST", &format!("/api/bindings/{vhost}/e/outbox/q/load"), Some(&json!({ "routing_key": "#" })))
        .await;

    let relay = relay(&stack)
        .set("retry-base", "10ms")
        .set("retry-max", "20ms")
        .set("max-attempts", "3")
        .set("retry-for", "0s") // so that nothing but what counts protects the events
        .set("park-after", "300ms")
        .set("confirm-timeout", "5s")
        .start()
        .await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "status = 'SENT'", 500).await;
    assert_eq!(stack.vhost.api("GET", &queue, None).await["leader"], leader.name());

    tokio::join!(leader.kill(), third.kill());
    let mark = relay.mark();
    // RabbitMQ 3 refuses what the queue cannot take; 4 does not answer.
    eventually("the relay takes it for an outage", SOON, async || {
        let lines = relay.log_lines().split_off(mark);
        let told =
            |line: &String| ["the broker refuses everything", "state=parked"].iter().any(|text| line.contains(text));
        if lines.iter().any(told) { Ok(()) } else { Err(lines) }
    })
    .await;
    load.wait_for(1000).await;
    wait_for_slot(&stack, 4_000_000).await;
    let blamed = "status = 'FAILED' OR status = 'PENDING' AND attempts > 0 OR last_error IS NOT NULL";
    assert_eq!(count(&stack, blamed).await, 0);

    tokio::join!(leader.start(), third.start());
    let sent = count(&stack, "status = 'SENT'").await;
    wait_for_rows(&stack, "status = 'SENT'", sent + 500).await;
    let emitted = load.stop().await;
    // A quorum queue may yet take what it has refused.
    let consumer = stack.consumer_with("#").existing_queue("load").start().await;
    check(&stack, &consumer, &emitted, emitted.len()).await;
}
