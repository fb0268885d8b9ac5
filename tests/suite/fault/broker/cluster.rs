//! Nodes of a cluster go. The tests take turns with one cluster.

use std::time::{Duration, Instant};

use harness::{Cluster, Postgres, RabbitMq, Relay, SOON, Stack, eventually};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::{DRAINED, IN_FLIGHT, check, count, load::Load, relay, wait_for_rows, wait_for_slot};

/// How long the relay may be without a connection when another node is there.
const PAUSE: Duration = Duration::from_secs(1);

/// The cluster, with all its nodes.
pub(super) async fn cluster() -> MutexGuard<'static, Cluster> {
    static CLUSTER: OnceCell<Mutex<Cluster>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Mutex::new(Cluster::start().await)).await.lock().await;
    cluster.join().await; // a test that failed may have left one down
    cluster
}

pub(super) async fn stack(cluster: &Cluster) -> Stack {
    let (postgres, vhost) = tokio::join!(Postgres::shared(), cluster.vhost());
    Stack { db: postgres.database().await, vhost }
}

fn queue(stack: &Stack) -> String {
    format!("/api/queues/{}/load", stack.vhost.name())
}

/// Makes the queue `load`, with a member on each node, led by this one; what `binding` matches goes there.
pub(super) async fn make_queue(stack: &Stack, leader: &RabbitMq, binding: &str) {
    stack.vhost.exchange("outbox").await;
    let arguments = json!({ "x-queue-type": "quorum", "x-quorum-initial-group-size": 3 });
    leader.api("PUT", &queue(stack), Some(&json!({ "durable": true, "arguments": arguments }))).await;
    let path = format!("/api/bindings/{}/e/outbox/q/load", stack.vhost.name());
    stack.vhost.api("POST", &path, Some(&json!({ "routing_key": binding }))).await;
    wait_for_members(stack, leader).await;
    assert_eq!(leader.api("GET", &queue(stack), None).await["leader"], leader.name());
}

pub(super) async fn wait_for_members(stack: &Stack, node: &RabbitMq) {
    eventually("every member of the queue is online", DRAINED, async || {
        let queue = node.api("GET", &queue(stack), None).await;
        match queue["online"].as_array().map(Vec::len) {
            Some(3) => Ok(()),
            _ => Err(queue["online"].clone()),
        }
    })
    .await;
}

/// What the relay says of its connection from line `mark` on: the node's address, and how long there was none.
pub(super) async fn connected(relay: &Relay, mark: usize) -> (String, Duration) {
    let line = relay.wait_for_log_after(mark, "connected to the broker").await;
    let field = |name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split_whitespace().next().map(|value| value.trim_matches('"').to_owned())
    };
    let away = field("away=").map_or(Duration::ZERO, |text| seconds(&text));
    (field("host=").unwrap_or_else(|| panic!("no host in {line}")), away)
}

/// Reads a duration as it is logged.
fn seconds(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap());
    let factor = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        other => panic!("{other:?} in {text}"),
    };
    Duration::from_secs_f64(number.parse::<f64>().unwrap() * factor)
}

/// The longest time without a verdict, in ms.
async fn longest_pause_ms(stack: &Stack) -> f64 {
    let sql = "SELECT extract(epoch FROM max(pause))::float8 * 1000 FROM
               (SELECT processed_at - lag(processed_at) OVER (ORDER BY processed_at) AS pause FROM outbox.events) AS pauses";
    stack.db.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn when_its_own_node_is_killed_under_load_the_relay_goes_on_at_another_within_a_second() {
    let cluster = cluster().await;
    let stack = stack(&cluster).await;
    let relay = relay(&stack).set("amqp-url", &cluster.url(&stack.vhost)).start().await;
    let (own, others) = cluster.node_at(&connected(&relay, 0).await.0);
    make_queue(&stack, others[0], "#").await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "status = 'SENT'", 500).await;

    own.write_declared().await;
    let mark = relay.mark();
    own.kill_at_once().await;
    let (host, away) = connected(&relay, mark).await;
    let sent = count(&stack, "status = 'SENT'").await;
    wait_for_rows(&stack, "status = 'SENT'", sent + 500).await;
    let verdicts = longest_pause_ms(&stack).await;
    println!("own node killed: no connection for {away:?}, no verdict for {verdicts:.0} ms");
    assert!(cluster.node_at(&host).0.name() != own.name());
    assert!(away <= PAUSE, "{away:?} without a connection");
    let told = relay.log_lines().split_off(mark);
    let why =
        |line: &String| line.contains("no connection to the broker") && line.contains(&own.amqp_port().to_string());
    assert!(told.iter().any(why), "{told:?}");

    let emitted = load.stop().await;
    own.start().await;
    let consumer = stack.consumer_with("#").existing_queue("load").start().await;
    check(&stack, &consumer, &emitted, IN_FLIGHT).await;
}

#[tokio::test]
async fn when_the_leader_of_its_queue_is_killed_under_load_events_wait_for_the_next_and_none_fails() {
    let cluster = cluster().await;
    let stack = stack(&cluster).await;
    let relay = relay(&stack).set("amqp-url", &cluster.url(&stack.vhost)).start().await;
    let (_, [leader, other]) = cluster.node_at(&connected(&relay, 0).await.0);
    make_queue(&stack, leader, "#").await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "status = 'SENT'", 500).await;

    leader.write_declared().await;
    let mark = relay.mark();
    leader.kill_at_once().await;
    let before = load.count() as i64;
    wait_for_rows(&stack, "status = 'SENT'", before + 500).await;
    println!("leader killed: no verdict for {:.0} ms", longest_pause_ms(&stack).await);
    let told = relay.log_lines().split_off(mark);
    assert!(!told.iter().any(|line| line.contains("no connection to the broker")), "{told:?}");

    let emitted = load.stop().await;
    leader.start().await;
    wait_for_members(&stack, other).await;
    let consumer = stack.consumer_with("#").existing_queue("load").start().await;
    // A leader that dies may have kept what it had not confirmed.
    check(&stack, &consumer, &emitted, IN_FLIGHT).await;
}

#[tokio::test]
async fn while_each_node_is_restarted_in_turn_under_load_nothing_is_lost_and_none_fails() {
    let cluster = cluster().await;
    let stack = stack(&cluster).await;
    let nodes = cluster.nodes();
    make_queue(&stack, &nodes[0], "#").await;
    let relay = relay(&stack).set("amqp-url", &cluster.url(&stack.vhost)).start().await;
    let load = Load::start(&stack).await;
    for (node, other) in nodes.iter().zip(nodes.iter().cycle().skip(1)) {
        wait_for_rows(&stack, "status = 'SENT'", load.count() as i64 + 200).await;
        node.stop().await;
        node.start().await;
        wait_for_members(&stack, other).await;
    }
    wait_for_rows(&stack, "status = 'SENT'", load.count() as i64 + 500).await;
    let emitted = load.stop().await;
    let told = relay.log_lines();
    let lost = told.iter().filter(|line| line.contains("no connection to the broker")).count();
    println!(
        "each node restarted: {lost} lines of a lost connection, no verdict for {:.0} ms",
        longest_pause_ms(&stack).await
    );
    assert!(told.iter().any(|line| line.contains("320 CONNECTION_FORCED")), "the relay's own node was among them");
    let consumer = stack.consumer_with("#").existing_queue("load").start().await;
    check(&stack, &consumer, &emitted, 2 * nodes.len() * IN_FLIGHT).await;
}

/// With two of three nodes gone there is a broker, and nowhere to put an event: the queue has no majority.
#[tokio::test]
async fn while_two_of_three_nodes_are_down_events_wait_and_the_outage_fails_none() {
    const OUTAGE: Duration = Duration::from_secs(20);
    let cluster = cluster().await;
    let stack = stack(&cluster).await;
    let relay = relay(&stack)
        .set("amqp-url", &cluster.url(&stack.vhost))
        .set("retry-base", "10ms")
        .set("retry-max", "20ms")
        .set("max-attempts", "3")
        .set("retry-for", "0s") // so that nothing but what counts protects the events
        .set("park-after", "300ms")
        .set("confirm-timeout", "5s")
        .start()
        .await;
    let (own, [leader, _]) = cluster.node_at(&connected(&relay, 0).await.0);
    make_queue(&stack, leader, "#").await;
    let load = Load::start(&stack).await;
    wait_for_rows(&stack, "status = 'SENT'", 500).await;

    tokio::join!(own.write_declared(), leader.write_declared());
    let (mark, began) = (relay.mark(), Instant::now());
    tokio::join!(own.kill_at_once(), leader.kill_at_once());
    // RabbitMQ 3 lets the relay in at the node that is left, and nacks what the queue cannot take; 4 may not answer.
    // The relay then parks, or, once its memory is crowded, takes the one queue for silent and leaves events to the
    // table.
    eventually("the relay takes it for an outage", SOON, async || {
        let lines = relay.log_lines().split_off(mark);
        let signs = ["the broker takes no message", "state=parked", "look for quorum queues without a majority"];
        let told = |line: &String| signs.iter().any(|sign| line.contains(sign));
        if lines.iter().any(told) { Ok(()) } else { Err(lines) }
    })
    .await;
    while began.elapsed() < OUTAGE {
        load.wait_for(200).await;
    }
    wait_for_slot(&stack, 4_000_000).await;
    let blamed = "status = 'FAILED' OR status = 'PENDING' AND attempts > 0 OR last_error IS NOT NULL";
    assert_eq!(count(&stack, blamed).await, 0);

    load.pause();
    tokio::join!(own.start(), leader.start());
    load.resume();
    let sent = count(&stack, "status = 'SENT'").await;
    wait_for_rows(&stack, "status = 'SENT'", sent + 500).await;
    let emitted = load.stop().await;
    // A quorum queue may yet take what it has nacked.
    let consumer = stack.consumer_with("#").existing_queue("load").start().await;
    check(&stack, &consumer, &emitted, emitted.len()).await;
}
