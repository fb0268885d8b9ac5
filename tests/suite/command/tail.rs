//! `tail`: what reaches the exchange, through a queue of its own.

use harness::{Consumer, SOON, Stack, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{ask, command, finish, value};

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
    let emit = "SELECT outbox.emit(E'a\\x1b[31m', '{\"card\": 4711}', aggregate_id => E'\\u009b2J')";
    stack.db.batch_execute(emit).await.unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.contains("a\\u{1b}[31m") && line.contains("\\u{9b}2J") && !line.contains("4711"), "{line:?}");
    let pid = tail.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    assert_eq!(tail.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn tail_does_not_make_events_routable_unless_somebody_agrees() {
    let stack = Stack::new().await;
    let asked = ask(&stack, &["tail", "#"]).await.ended_with(2);
    assert!(asked.err.contains("counts as SENT") && asked.err.contains("--yes"), "{asked:?}");
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
