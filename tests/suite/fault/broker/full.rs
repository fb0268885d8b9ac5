//! Queues that take nothing, with `reject-publish`: the broker nacks, and that is the queue's state, not the event's
//! fault.

use std::time::Duration;

use harness::{RelayBuilder, SOON, Stack, eventually};
use serde_json::json;

use super::{
    DRAINED, check, check_arrivals, count,
    load::{Load, emit},
    queue, relay, wait_for_rows, wait_for_slot,
};

const MODES: [&str; 3] = ["strict", "pipelined", "none"];

/// A relay that would give up after three attempts within 0.1 s, if attempts alone decided.
fn impatient(stack: &Stack) -> RelayBuilder {
    relay(stack).set("retry-base", "10ms").set("retry-max", "20ms").set("max-attempts", "3")
}

/// A durable queue, named as its binding, that is full from the start.
async fn full_queue(stack: &Stack, name: &str) {
    queue(stack, name).await;
    stack.vhost.api("PUT", &policy(stack, name), Some(&definition(name, 1))).await;
    eventually("the policy is in force", SOON, async || {
        let queue = stack.vhost.api("GET", &format!("/api/queues/{}/{name}", stack.vhost.name()), None).await;
        if queue["policy"] == name { Ok(()) } else { Err(queue["policy"].clone()) }
    })
    .await;
    let message = json!({ "routing_key": name, "payload": "", "payload_encoding": "string", "properties": {} });
    stack.vhost.api("POST", &format!("/api/exchanges/{}/outbox/publish", stack.vhost.name()), Some(&message)).await;
}

fn definition(name: &str, length: usize) -> serde_json::Value {
    let definition = json!({ "max-length": length, "overflow": "reject-publish" });
    json!({ "pattern": format!("^{name}$"), "apply-to": "queues", "definition": definition })
}

fn policy(stack: &Stack, name: &str) -> String {
    format!("/api/policies/{}/{name}", stack.vhost.name())
}

/// The queue takes everything from now on, and is empty.
async fn make_room(stack: &Stack, name: &str) {
    stack.vhost.api("DELETE", &format!("/api/queues/{}/{name}/contents", stack.vhost.name()), None).await;
    stack.vhost.api("DELETE", &policy(stack, name), None).await;
}

#[tokio::test]
async fn a_full_queue_alone_costs_no_attempt_and_fails_nobody_however_often_it_nacks() {
    for ordering in MODES {
        let stack = Stack::new().await;
        full_queue(&stack, "load").await;
        let relay = impatient(&stack).set("ordering", ordering).start().await;
        let emitted = emit(&stack.db, "alone", 0, 300).await;
        relay.wait_for_log("the broker takes no message").await;
        wait_for_slot(&stack, 100_000).await;
        assert_eq!(
            count(&stack, "status = 'PENDING' AND attempts = 0 AND last_error IS NULL").await,
            300,
            "{ordering}"
        );

        make_room(&stack, "load").await;
        let consumer = stack.consumer_with("load").queue("load").start().await;
        if ordering == "none" {
            wait_for_rows(&stack, "status = 'SENT' AND attempts = 1", 300).await;
        } else {
            check(&stack, &consumer, &emitted, 0).await;
        }
    }
}

#[tokio::test]
async fn while_one_full_queue_is_all_the_traffic_an_event_of_another_route_leaves_at_once() {
    for ordering in MODES {
        let stack = Stack::new().await;
        full_queue(&stack, "load").await;
        let consumer = stack.consumer("other").await;
        let relay = impatient(&stack).set("ordering", ordering).start().await;
        emit(&stack.db, "alone", 0, 300).await;
        relay.wait_for_log("the broker takes no message").await;
        for n in 1..=3 {
            let sql = "SELECT outbox.emit('other', '1', aggregate_type => 'other', aggregate_id => 'o')";
            stack.db.batch_execute(sql).await.unwrap();
            consumer.wait_for(n).await;
        }
        wait_for_rows(&stack, "topic = 'other' AND status = 'SENT'", 3).await;
        let late = "topic = 'other' AND processed_at - created_at > interval '1 second'";
        assert_eq!(count(&stack, late).await, 0, "{ordering}");
        assert_eq!(count(&stack, "status = 'FAILED'").await, 0, "{ordering}");
    }
}

#[tokio::test]
async fn a_full_queue_with_more_events_than_memory_holds_does_not_stop_another_route() {
    let stack = Stack::new().await;
    full_queue(&stack, "load").await;
    let consumer = stack.consumer("other").await;
    let relay =
        impatient(&stack).set("retry-max", "10s").set("max-bytes", "900KiB").set("park-after", "300ms").start().await;
    let emitted = emit(&stack.db, "alone", 0, 1000).await;
    relay.wait_for_log("the broker takes no message").await;
    stack.db.batch_execute("SELECT outbox.emit('other', '1')").await.unwrap();
    consumer.wait_for_within(1, DRAINED).await;
    wait_for_slot(&stack, 100_000).await;
    assert_eq!(count(&stack, "status = 'FAILED'").await, 0);
    make_room(&stack, "load").await;
    let consumer = stack.consumer_with("load").queue("load").start().await;
    wait_for_rows(&stack, "topic = 'load' AND status = 'SENT'", 1000).await;
    check_arrivals(&consumer, &emitted, 0).await;
}

#[tokio::test]
async fn while_every_queue_is_full_no_attempt_counts_the_log_is_freed_and_all_come_in_order_afterwards() {
    for ordering in ["strict", "pipelined"] {
        let stack = Stack::new().await;
        let names = ["load", "second", "third"];
        for name in names {
            full_queue(&stack, name).await;
        }
        let relay = impatient(&stack).set("ordering", ordering).set("max-bytes", "900KiB").set("park-after", "300ms");
        let relay = relay.start().await;
        let load = Load::start(&stack).await;
        for name in ["second", "third"] {
            let sql = "SELECT outbox.emit($1, to_jsonb(n), aggregate_type => $1, aggregate_id => 'k')
                       FROM generate_series(1, 20) n";
            stack.db.query(sql, &[&name]).await.unwrap();
        }
        let line = relay.wait_for_log("the broker takes no message").await;
        assert!(line.contains("basic.nack"), "{line}");
        // Where the broker was slow at first, all keys of the load are held in the table; these fill memory in any
        // case.
        let late = emit(&stack.db, "late", 0, 400).await;
        relay.wait_for_log("parked").await;
        load.wait_for(1500).await; // five times what fits in memory
        wait_for_slot(&stack, 4_000_000).await;
        assert_eq!(
            count(&stack, "attempts > 0 OR status <> 'PENDING' OR last_error IS NOT NULL").await,
            0,
            "{ordering}"
        );
        for name in names {
            make_room(&stack, name).await;
        }
        wait_for_rows(&stack, "status = 'SENT'", 500).await;
        let mut emitted = load.stop().await;
        emitted.extend(late);
        let consumer = stack.consumer_with("load").queue("load").start().await;
        eventually("every event is SENT", DRAINED, async || match count(&stack, "status <> 'SENT'").await {
            0 => Ok(()),
            left => Err(left),
        })
        .await;
        check_arrivals(&consumer, &emitted, 0).await;
        for name in ["second", "third"] {
            let took = stack.consumer_with(name).queue(name).start().await;
            let numbers: Vec<_> = took.wait_for(20).await.iter().map(|delivery| delivery.json()).collect();
            assert_eq!(numbers, (1..=20).map(|n| json!(n)).collect::<Vec<_>>());
        }
    }
}

#[tokio::test]
async fn a_full_queue_among_healthy_ones_has_its_attempts_counted_and_is_not_given_up_before_its_time() {
    let stack = Stack::new().await;
    full_queue(&stack, "full").await;
    let consumer = stack.consumer("load").await;
    let _relay = impatient(&stack).start().await;
    let load = Load::start(&stack).await;
    stack.db.batch_execute("SELECT outbox.emit('full', to_jsonb(n)) FROM generate_series(1, 20) n").await.unwrap();
    // More than max_attempts.
    wait_for_rows(&stack, "topic = 'full' AND status = 'PENDING' AND attempts > 5", 20).await;
    wait_for_rows(&stack, "topic = 'load' AND status = 'SENT'", 1000).await;
    let wrong =
        "topic = 'full' AND (status <> 'PENDING' OR first_attempted_at IS NULL OR last_error NOT LIKE '%nack%')";
    assert_eq!(count(&stack, wrong).await, 0);
    let emitted = load.stop().await;
    check_load(&stack, &consumer, &emitted).await;
    let late = "topic = 'load' AND processed_at - created_at > interval '2 seconds'";
    assert_eq!(count(&stack, late).await, 0, "others go on at full speed");
}

async fn check_load(stack: &Stack, consumer: &harness::Consumer, emitted: &[super::Emitted]) {
    wait_for_rows(stack, "topic = 'load' AND status = 'SENT' AND attempts = 1", emitted.len() as i64).await;
    check_arrivals(consumer, emitted, 0).await;
}

#[tokio::test]
async fn an_event_is_given_up_when_both_its_attempts_and_its_time_are_used_up_with_the_error_of_all_that_are_nacked_alike()
 {
    for (retry_for, at_least) in [("0s", Duration::ZERO), ("2s", Duration::from_secs(2))] {
        let stack = Stack::new().await;
        full_queue(&stack, "full").await;
        let _consumer = stack.consumer("load").await;
        let relay = impatient(&stack).set("retry-for", retry_for).start().await;
        let load = Load::start(&stack).await;
        stack.db.batch_execute("SELECT outbox.emit('full', '1')").await.unwrap();
        wait_for_rows(&stack, "topic = 'full' AND status = 'FAILED'", 1).await;
        load.stop().await;
        let sql = "SELECT attempts, last_error, extract(epoch FROM processed_at - first_attempted_at)::float8
                   FROM outbox.events WHERE topic = 'full'";
        let row = stack.db.query_one(sql, &[]).await.unwrap();
        let (attempts, error, seconds): (i32, String, f64) = (row.get(0), row.get(1), row.get(2));
        assert!(seconds >= at_least.as_secs_f64() && attempts >= 3, "{attempts} attempts in {seconds} s");
        assert!(retry_for != "0s" || attempts == 3, "{attempts}");
        assert_eq!(error, outbox_service::sink::rabbitmq::NACKED, "so that failures() makes one group of a thousand");
        relay.wait_for_log(r#"status="FAILED" error="the broker did not take the message (basic.nack)""#).await;

        // A replay begins anew.
        let replayed = "SELECT outbox.replay(id) FROM outbox.events WHERE topic = 'full'";
        stack.db.batch_execute(replayed).await.unwrap();
        assert_eq!(count(&stack, "topic = 'full' AND status <> 'FAILED' AND attempts < 3").await, 1);
    }
}
