//! `tail`: what reaches the exchange, through a queue of its own.

use std::time::{Duration, Instant};

use harness::{Consumer, Proxy, SOON, Stack, eventually};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStderr},
};

use super::{ask, command, finish, value};

type Lines = tokio::io::Lines<BufReader<ChildStderr>>;

async fn queues(stack: &Stack) -> Vec<String> {
    let list = stack.vhost.api("GET", &format!("/api/queues/{}", stack.vhost.name()), None).await;
    list.as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap().to_owned()).collect()
}

async fn wait_for_tail(stack: &Stack) {
    eventually("tail has its queue bound", SOON, async || {
        let path = format!("/api/exchanges/{}/outbox/bindings/source", stack.vhost.name());
        let bindings = stack.vhost.api("GET", &path, None).await;
        let is_tail =
            |binding: &Value| binding["destination"].as_str().is_some_and(|name| name.starts_with("outbox-tail."));
        if bindings.as_array().unwrap().iter().any(is_tail) { Ok(()) } else { Err(bindings) }
    })
    .await;
}

#[tokio::test]
async fn tail_shows_what_reaches_the_exchange_and_takes_nothing_from_anybody() {
    let stack = Stack::new().await;
    let consumer: Consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    let url = stack.db.url();
    let json = tokio::spawn(finish(command(
        &stack,
        url,
        &["tail", "orders.*", "--limit", "2", "--yes", "--json", "--payload"],
    )));
    wait_for_tail(&stack).await;
    let emit = "SELECT outbox.emit('orders.created', '{\"n\": 1}', aggregate_type => 'order', aggregate_id => '7',
                                   headers => '{\"h\": [1, \"x\"]}', event_type => 'created', correlation_id => 'c')";
    let id = value(&stack.db, emit).await;
    stack
        .db
        .batch_execute("SELECT outbox.emit('other', '{}'); SELECT outbox.emit('orders.paid', '\\xff00'::bytea)")
        .await
        .unwrap();

    let asked = json.await.unwrap().ended_with(0);
    let [created, paid] = &asked.json()[..] else { panic!("{asked:?}") };
    for (field, expected) in [
        ("message_id", json!(id)),
        ("routing_key", json!("orders.created")),
        ("exchange", json!("outbox")),
        ("type", json!("created")),
        ("correlation_id", json!("c")),
        ("aggregate_type", json!("order")),
        ("aggregate_id", json!("7")),
        ("content_type", json!("application/json")),
        ("payload", json!({ "n": 1 })),
        ("seq", json!(1)),
    ] {
        assert_eq!(created[field], expected, "{field}: {created}");
    }
    assert_eq!(created["headers"]["h"], json!([1, "x"]));
    assert_eq!(paid["payload_base64"], "/wA=", "{paid}");
    assert_eq!(consumer.wait_for(3).await.len(), 3);
    eventually("its queue is gone, and no other", SOON, async || match queues(&stack).await {
        queues if queues == [consumer.queue()] => Ok(()),
        queues => Err(queues),
    })
    .await;
}

#[tokio::test]
async fn tail_ends_with_its_terminal_and_shows_no_payload_and_no_escape_unasked() {
    let stack = Stack::new().await;
    let _consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    let mut tail = command(&stack, stack.db.url(), &["tail", "#", "--yes"]);
    let mut tail = tail.spawn().unwrap();
    wait_for_tail(&stack).await;
    let emit = "SELECT outbox.emit(E'a\\x1b[31m', '{\"card\": \"visa\"}', aggregate_id => E'\\u009b2J')";
    stack.db.batch_execute(emit).await.unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.contains("a\\u{1b}[31m") && line.contains("\\u{9b}2J") && !line.contains("visa"), "{line:?}");
    let pid = tail.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    assert_eq!(tail.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn tail_does_not_make_events_routable_unless_somebody_agrees() {
    let stack = Stack::new().await;
    let asked = ask(&stack, &["tail", "#"]).await.ended_with(2);
    assert!(asked.err.contains("counts as SENT") && asked.err.contains("--yes"), "{asked:?}");
    assert!(!asked.err.contains("--dry-run"), "it has none: {asked:?}");
    let asked = ask(&stack, &["tail"]).await.ended_with(2);
    assert!(asked.err.contains("BINDING"), "{asked:?}");
}

#[tokio::test]
async fn tail_is_told_what_is_missing() {
    let stack = Stack::new().await;
    let asked = ask(&stack, &["tail", "#", "--yes"]).await.ended_with(21);
    assert!(asked.err.contains("\"outbox\"") && asked.err.contains("NOT_FOUND"), "{asked:?}");

    stack.vhost.exchange("outbox").await;
    let user = format!("reader_{}", stack.db.name());
    stack.vhost.user(&user, "hunter2", "^outbox-tail", "^outbox-tail", "^outbox-tail").await;
    let call = async |user: &str, password: &str| {
        let mut tail = command(&stack, stack.db.url(), &["tail", "#", "--yes", "--for", "1s"]);
        tail.env("AMQP_URL", stack.vhost.url_as(user, password));
        let asked = finish(tail).await;
        assert!(!asked.err.contains("hunter2"), "{asked:?}");
        asked
    };
    let asked = call(&user, "hunter2").await.ended_with(21);
    assert!(asked.err.contains("ACCESS_REFUSED") && asked.err.contains("read from the exchange"), "{asked:?}");
    call(&user, "wrong").await.ended_with(21);
    stack.vhost.user(&user, "hunter2", "^outbox-tail", "^outbox-tail", "^outbox").await;
    call(&user, "hunter2").await.ended_with(0);
}

/// `tail` through a proxy, while it shows messages; and what else it says.
async fn tail_through(stack: &Stack, proxy: &Proxy, parameters: &str, arguments: &[&str]) -> (Child, Lines) {
    let mut tail = command(stack, stack.db.url(), &[&["tail", "#", "--yes"], arguments].concat());
    tail.env("AMQP_URL", format!("{}{parameters}", stack.vhost.url_at(proxy.port())));
    let mut tail = tail.spawn().unwrap();
    let mut lines = BufReader::new(tail.stderr.take().unwrap()).lines();
    assert!(lines.next_line().await.unwrap().unwrap().contains("until Ctrl-C"));
    (tail, lines)
}

fn send(tail: &Child, signal: &str) {
    let pid = tail.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
}

#[tokio::test]
async fn the_first_signal_ends_tail_and_so_does_its_time_while_the_broker_is_frozen() {
    let stack = Stack::new().await;
    stack.vhost.exchange("outbox").await;
    for signal in ["INT", "TERM"] {
        let proxy = Proxy::to(stack.vhost.port()).await;
        let (mut tail, _) = tail_through(&stack, &proxy, "", &[]).await;
        proxy.stall();
        let since = Instant::now();
        send(&tail, signal);
        assert_eq!(tail.wait().await.unwrap().code(), Some(0), "{signal}");
        assert!(since.elapsed() < Duration::from_secs(5), "{signal}: {:?}", since.elapsed());
    }
    let proxy = Proxy::to(stack.vhost.port()).await;
    let (mut tail, _) = tail_through(&stack, &proxy, "", &["--for", "1s"]).await;
    proxy.stall();
    assert_eq!(tokio::time::timeout(SOON, tail.wait()).await.unwrap().unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_broker_that_is_silent_beyond_the_heartbeat_ends_tail_with_an_error() {
    let stack = Stack::new().await;
    stack.vhost.exchange("outbox").await;
    let proxy = Proxy::to(stack.vhost.port()).await;
    let (mut tail, mut lines) = tail_through(&stack, &proxy, "?heartbeat=1", &[]).await;
    proxy.stall();
    let err = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert_eq!(tail.wait().await.unwrap().code(), Some(20), "{err}");
    assert!(err.contains("lost the broker") && err.contains("heartbeat"), "{err}");
}

#[tokio::test]
async fn tail_ends_with_a_signal_while_nobody_reads_what_it_has_printed() {
    let stack = Stack::new().await;
    let consumer = stack.consumer("#").await;
    let _relay = stack.relay().start().await;
    let mut tail = command(&stack, stack.db.url(), &["tail", "#", "--yes", "--payload"]).spawn().unwrap();
    wait_for_tail(&stack).await;
    // More than the pipe holds.
    stack.db.batch_execute("SELECT outbox.emit('a', to_jsonb(repeat('x', 500000)))").await.unwrap();
    consumer.wait_for(1).await;
    let mut shown = BufReader::new(tail.stdout.take().unwrap());
    shown.fill_buf().await.unwrap(); // it has begun to print, and nobody reads the rest
    send(&tail, "INT");
    assert_eq!(tokio::time::timeout(SOON, tail.wait()).await.unwrap().unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_binding_key_that_amqp_cannot_carry_is_refused_in_one_line() {
    let stack = Stack::new().await;
    let asked = ask(&stack, &["tail", &"a".repeat(256), "--yes"]).await.ended_with(2);
    assert!(asked.err.contains("at most 255 bytes") && !asked.err.contains("panicked"), "{asked:?}");
    let settings = ["tail", &"a".repeat(255), "--yes", "--for", "1s", "--exchange", &"e".repeat(255)];
    assert!(ask(&stack, &settings).await.ended_with(21).err.contains("NOT_FOUND"));
}
