//! A quorum queue is without its majority, and the other queues of the broker are not.

use std::time::{Duration, Instant};

use harness::{RabbitMq, Stack};
use serde_json::json;

use super::{
    check, check_arrivals,
    cluster::{cluster, connected, make_queue, stack},
    count,
    load::Load,
    relay, wait_for_rows,
};

/// From the first silence until other queues' events go on, and how long that is watched then.
const GOES_ON_WITHIN: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(15);

/// Of the events of `topic` that were committed in this part of the outage, in seconds: how many were, and how many
/// have `SENT` now.
async fn part(stack: &Stack, topic: &str, from: f64, to: f64) -> (i64, i64) {
    let sql = "SELECT count(*), count(*) FILTER (WHERE status = 'SENT') FROM outbox.events
               WHERE topic = $1 AND created_at >= (SELECT at FROM outage) + make_interval(secs => $2)
                 AND created_at < (SELECT at FROM outage) + make_interval(secs => $3)";
    let row = stack.db.query_one(sql, &[&topic, &from, &to]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Whether such a queue of this RabbitMQ answers nothing: before version 4 it nacks, and a nack counts while others are
/// confirmed.
async fn answers_nothing(node: &RabbitMq) -> bool {
    let overview = node.api("GET", "/api/overview", None).await;
    !overview["rabbitmq_version"].as_str().unwrap_or_else(|| panic!("{overview}")).starts_with("3.")
}

#[tokio::test]
async fn while_a_quorum_queue_has_no_majority_the_events_of_other_queues_go_on_and_nothing_fails() {
    let cluster = cluster().await;
    let stack = stack(&cluster).await;
    let relay = relay(&stack).set("amqp-url", &cluster.url(&stack.vhost)).start().await;
    let (own, [leader, other]) = cluster.node_at(&connected(&relay, 0).await.0);
    make_queue(&stack, leader, "load").await;
    // A classic queue is where it was declared: at the node that stays.
    let (vhost, name) = (stack.vhost.name(), "elsewhere");
    own.api("PUT", &format!("/api/queues/{vhost}/{name}"), Some(&json!({ "durable": true }))).await;
    let binding = format!("/api/bindings/{vhost}/e/outbox/q/{name}");
    own.api("POST", &binding, Some(&json!({ "routing_key": name }))).await;

    let [load, elsewhere] = [Load::to(&stack, "load").await, Load::to(&stack, "elsewhere").await];
    wait_for_rows(&stack, "status = 'SENT' AND topic = 'load'", 500).await;
    wait_for_rows(&stack, "status = 'SENT' AND topic = 'elsewhere'", 500).await;
    tokio::join!(leader.write_declared(), other.write_declared());
    tokio::join!(leader.kill_at_once(), other.kill_at_once());
    stack.db.batch_execute("CREATE TABLE outage AS SELECT clock_timestamp() AS at").await.unwrap();
    let began = Instant::now();
    let (watched_from, watched_to) = (GOES_ON_WITHIN.as_secs_f64(), (GOES_ON_WITHIN + WATCHED).as_secs_f64());
    while began.elapsed() < GOES_ON_WITHIN + WATCHED {
        elsewhere.wait_for(100).await;
    }
    // What was committed in the last second may be on its way.
    let (emitted, sent) = part(&stack, "elsewhere", watched_from, watched_to - 1.0).await;
    let all = part(&stack, "load", watched_from, watched_to).await;
    println!(
        "from {watched_from} s on: {sent} of {emitted} events of the other queue SENT; {all:?} of the queue without majority"
    );
    assert!(emitted > 1000 && sent * 10 >= emitted * 9, "{sent} of {emitted}: {:#?}", relay.log_lines());
    assert_eq!(all.1, 0, "this queue takes nothing");
    let blamed =
        if answers_nothing(own).await { "attempts > 0 AND status <> 'SENT' OR last_error IS NOT NULL OR" } else { "" };
    assert_eq!(count(&stack, &format!("{blamed} status = 'FAILED'")).await, 0);

    let (load, elsewhere) = (load.stop().await, elsewhere.stop().await);
    tokio::join!(leader.start(), other.start());
    let consumers = [
        stack.consumer_with("load").existing_queue("load").start().await,
        stack.consumer_with("elsewhere").existing_queue("elsewhere").start().await,
    ];
    // A leader that dies may have kept what it had not confirmed, and what was in flight when the relay connected anew
    // is sent again.
    check(&stack, &consumers[1], &elsewhere, elsewhere.len()).await;
    if answers_nothing(own).await {
        check(&stack, &consumers[0], &load, load.len()).await;
    } else {
        check_arrivals(&consumers[0], &load, load.len()).await;
    }
}
