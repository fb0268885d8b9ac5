use std::time::Duration;

use harness::{Listener, SOON, eventually};
use tokio::time::sleep;

use super::{Sink, assert_all_in_order, emit, private, run, shared, wait_for_counts};

/// Time for something to go wrong between two faults.
const A_MOMENT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn while_no_broker_is_there_no_attempt_counts_and_afterwards_everything_is_sent_in_order() {
    let Some(builder) = private() else { return };
    let kafka = builder.start().await;
    let topic = kafka.topic(2, &[]).await;
    let sink = Sink::new(&kafka).await;
    let relay = sink.relay().start().await;
    emit(&sink.db, &topic, 1, 100).await;
    wait_for_counts(&sink.db, (0, 100, 0), SOON).await;
    kafka.node(1).kill().await;
    relay.wait_for_log("no connection to the broker").await;
    emit(&sink.db, &topic, 101, 400).await;
    relay.wait_for_log("parked").await;
    kafka.node(1).start().await;
    wait_for_counts(&sink.db, (0, 500, 0), 2 * SOON).await;
    let tried: i64 =
        sink.db.query_one("SELECT count(*) FROM outbox.events WHERE attempts > 1", &[]).await.unwrap().get(0);
    assert_eq!(tried, 0);
    assert_all_in_order(&kafka.records(&topic).await, 500);
}

#[tokio::test]
async fn a_relay_that_is_killed_again_and_again_loses_nothing_repeats_nothing_and_keeps_each_keys_order() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(3, &[]).await;
    let sink = Sink::new(kafka).await;
    let builder = sink.relay().set("in-flight", "100");
    for round in 0..6 {
        let relay = builder.spawn();
        emit(&sink.db, &topic, 1 + round * 1000, 1000).await;
        eventually("it has sent some", SOON, async || {
            let sql = "SELECT count(*) FROM outbox.events WHERE status = 'SENT'";
            let sent: i64 = sink.db.query_one(sql, &[]).await.unwrap().get(0);
            if sent > round * 1000 { Ok(()) } else { Err(sent) }
        })
        .await;
        drop(relay); // kills it
    }
    let _relay = builder.start().await;
    wait_for_counts(&sink.db, (0, 6000, 0), SOON).await;
    let records = kafka.records(&topic).await;
    assert_all_in_order(&records, 6000);
    assert_eq!(records.len(), 6000, "none is there twice");
}

#[tokio::test]
async fn when_leaders_are_killed_frozen_and_restarted_under_load_nothing_is_lost_or_out_of_order() {
    let Some(builder) = private() else { return };
    let kafka = builder.three_nodes().start().await;
    let topic = kafka.topic(3, &[("min.insync.replicas", "2")]).await;
    let sink = Sink::new(&kafka).await;
    let _relay = sink.relay().set("confirm-timeout", "10s").start().await;
    let mut emitted = 0;
    for fault in ["kill", "pause", "stop"] {
        let victim = kafka.node(kafka.leader(&topic, 0).await);
        for step in 0..10 {
            emit(&sink.db, &topic, emitted + 1, 200).await;
            emitted += 200;
            match (step, fault) {
                (3, "kill") => victim.kill().await,
                (3, "pause") => victim.pause(),
                (3, "stop") => victim.stop().await,
                _ => {}
            }
            sleep(A_MOMENT).await;
        }
        if fault == "pause" {
            victim.resume();
        } else {
            victim.start().await;
        }
        wait_for_counts(&sink.db, (0, emitted, 0), 4 * SOON).await;
    }
    assert!(kafka.addresses(Listener::Plain).contains(','));
    let records = kafka.records(&topic).await;
    assert_all_in_order(&records, emitted);
    assert_eq!(i64::try_from(records.len()), Ok(emitted), "none is there twice");
}

#[tokio::test]
async fn a_topic_with_too_few_replicas_in_sync_costs_no_event_its_life_and_no_other_topic_waits() {
    let Some(builder) = private() else { return };
    let kafka = builder.three_nodes().start().await;
    let (stuck, later) =
        (kafka.topic(1, &[("min.insync.replicas", "3")]).await, kafka.topic(1, &[("min.insync.replicas", "3")]).await);
    let other = kafka.topic(1, &[]).await;
    let sink = Sink::new(&kafka).await;
    let _relay = sink.relay().set("max-attempts", "1").set("retry-max", "1s").start().await;
    let leader = kafka.leader(&stuck, 0).await;
    let away = kafka.nodes().iter().find(|node| node.id() != leader).unwrap();
    away.kill().await;
    // The leader still counts on the third: it writes the batch, and says that it has waited in vain.
    emit(&sink.db, &stuck, 1, 50).await;
    let without_key = format!("SELECT outbox.emit('{other}', to_json(n)) FROM generate_series(1, 500) AS n");
    run(&sink.db, &without_key).await;
    wait_for_counts(&sink.db, (50, 500, 0), 2 * SOON).await;
    kafka.wait_for_replicas_in_sync(&later, 2).await;
    run(&sink.db, &format!("SELECT outbox.emit('{later}', to_json(n)) FROM generate_series(1, 20) AS n")).await;
    // An attempt counts only if the broker takes others meanwhile.
    let mut sent = 500;
    eventually("the broker's words are in the table", SOON, async || {
        run(&sink.db, &format!("SELECT outbox.emit('{other}', '0'::json)")).await;
        sent += 1;
        let sql = "SELECT coalesce(max(last_error), '') FROM outbox.events WHERE status = 'PENDING'";
        let error: String = sink.db.query_one(sql, &[]).await.unwrap().get(0);
        if error.starts_with("19 NOT_ENOUGH_REPLICAS") { Ok(()) } else { Err(error) }
    })
    .await;
    away.start().await;
    wait_for_counts(&sink.db, (0, sent + 70, 0), 2 * SOON).await;
    let records = kafka.records(&stuck).await;
    assert_all_in_order(&records, 50);
    assert_eq!(records.len(), 50, "none is there twice");
}

#[tokio::test]
async fn topics_of_a_broker_that_leads_on_and_answers_nobody_hold_up_no_other_topic_also_of_a_relay_that_starts() {
    let Some(builder) = private() else { return };
    let builder =
        builder.three_nodes().set("broker.session.timeout.ms", "600000").set("replica.lag.time.max.ms", "1000");
    let kafka = builder.start().await;
    let sink = Sink::new(&kafka).await;
    let builder = sink.relay().set("retry-max", "1s");
    let first = kafka.topic_on(kafka.node(1)).await;
    let relay = builder.start().await;
    emit(&sink.db, &first, 1, 1).await;
    wait_for_counts(&sink.db, (0, 1, 0), SOON).await;
    let coordinator = kafka.leader("__transaction_state", 0).await;
    let is_needed = [coordinator, kafka.controller().await];
    let frozen = kafka.nodes().iter().find(|node| !is_needed.contains(&node.id())).unwrap();
    let (stuck, other) = (kafka.topic_on(frozen).await, kafka.topic_on(kafka.node(coordinator)).await);
    frozen.pause();
    relay.kill().await;
    let relay = builder.start().await;
    emit(&sink.db, &other, 1, 1).await;
    // The cluster itself first finds out who is in sync.
    kafka.wait_for_replicas_in_sync("__transaction_state", 2).await;
    wait_for_counts(&sink.db, (0, 2, 0), 2 * SOON).await;
    let (mut sent, mut relay) = (2, relay);
    for waiting in 1..=20 {
        if waiting % 5 == 1 {
            relay.kill().await;
            relay = builder.start().await;
        }
        run(&sink.db, &format!("SELECT outbox.emit('{stuck}', '0')")).await;
        emit(&sink.db, &other, 1, 10).await;
        sent += 10;
        wait_for_counts(&sink.db, (waiting, sent, 0), Duration::from_secs(10)).await;
    }
    assert_eq!(kafka.leader(&stuck, 0).await, frozen.id(), "it leads on");
    frozen.resume();
    wait_for_counts(&sink.db, (0, sent + 20, 0), 2 * SOON).await;
    assert_eq!(kafka.records(&stuck).await.len(), 20, "none is there twice");
}
