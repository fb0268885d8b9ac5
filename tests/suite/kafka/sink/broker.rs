//! A broker that answers nothing, answers slowly, or has no room left on its disk.

use std::time::Duration;

use harness::{Direction, Proxy, RelayBuilder, SOON, eventually, free_port};
use tokio::time::sleep;

use super::{Sink, assert_all_in_order, emit, private, run, wait_for_counts};
use crate::{
    kafka::producer::{Answer, NOBODY, Producer, batch, record},
    watch::{http_port, metric},
};

/// How long a slow broker takes for an answer.
const SLOW: Duration = Duration::from_millis(300);
/// So many such answers take longer than a silent broker is waited for.
const TURNS: i64 = 15;

impl Sink<'_> {
    /// A relay that gives an event up at the first attempt that counts.
    fn strict_relay(&self) -> RelayBuilder {
        self.relay().set("max-attempts", "1").set("retry-for", "0s")
    }

    async fn number(&self, condition: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM outbox.events WHERE {condition}");
        self.db.query_one(&sql, &[]).await.unwrap().get(0)
    }

    /// Every one of the `count` events was SENT at its first attempt, and is in the topic once, each key's in order.
    async fn assert_sent_once(&self, topic: &str, count: i64) {
        assert_eq!(self.number("attempts <> 1").await, 0);
        let records = self.kafka.records(topic).await;
        assert_all_in_order(&records, count);
        assert_eq!(i64::try_from(records.len()), Ok(count), "none is there twice");
    }
}

#[tokio::test]
async fn a_broker_that_says_nothing_for_longer_than_a_confirm_is_waited_for_costs_no_attempt_and_gets_nothing_twice() {
    let Some(builder) = private() else { return };
    let kafka = builder.start().await;
    let topic = kafka.topic(2, &[]).await;
    let sink = Sink::new(&kafka).await;
    let relay = sink.strict_relay().set("confirm-timeout", "2s").start().await;
    emit(&sink.db, &topic, 1, 200).await;
    wait_for_counts(&sink.db, (0, 200, 0), SOON).await;
    kafka.node(1).pause();
    emit(&sink.db, &topic, 201, 5000).await;
    relay.wait_for_log("no connection to the broker").await;
    kafka.node(1).resume();
    wait_for_counts(&sink.db, (0, 5200, 0), 2 * SOON).await;
    sink.assert_sent_once(&topic, 5200).await;
}

#[tokio::test]
async fn a_slow_broker_is_waited_for_while_no_more_is_in_flight_than_the_setting_says_and_no_attempt_counts() {
    let Some(builder) = private() else { return };
    let port = free_port();
    let proxy = Proxy::to(port).await;
    let kafka = builder.proxied(port, proxy.port()).start().await;
    let topic = kafka.topic(2, &[]).await;
    let sink = Sink::new(&kafka).await;
    let relay = sink.strict_relay().set("kafka-url", &format!("kafka://127.0.0.1:{}", proxy.port()));
    let relay = relay.set("confirm-timeout", "3s").set("in-flight", "100").set("http-listen", "0").start().await;
    let http = http_port(&relay).await;
    for turn in 0..TURNS {
        proxy.hold(Direction::FromServer);
        emit(&sink.db, &topic, 1 + turn * 150, 150).await;
        eventually("an answer is on its way", SOON, async || {
            if proxy.held(Direction::FromServer) > 0 { Ok(()) } else { Err("none") }
        })
        .await;
        sleep(SLOW).await;
        let waiting = metric(http, "outbox_in_flight_events", "").await.unwrap();
        assert!((1.0..=100.0).contains(&waiting), "{waiting} wait for their answers");
        proxy.release(Direction::FromServer);
        eventually("the answer has come", SOON, async || match proxy.held(Direction::FromServer) {
            0 => Ok(()),
            held => Err(held),
        })
        .await;
    }
    let count = TURNS * 150;
    wait_for_counts(&sink.db, (0, count, 0), SOON).await;
    sink.assert_sent_once(&topic, count).await;
    assert!(!relay.log_text().contains("no connection to the broker"), "{}", relay.log_text());
}

#[tokio::test]
async fn a_broker_that_ends_over_its_full_disk_gets_everything_once_when_it_has_room_again_and_no_attempt_counts() {
    let Some(builder) = private() else { return };
    let kafka = builder.start().await;
    let topic = kafka.topic(2, &[]).await;
    let sink = Sink::new(&kafka).await;
    let relay = sink.strict_relay().start().await;
    emit(&sink.db, &topic, 1, 200).await;
    wait_for_counts(&sink.db, (0, 200, 0), SOON).await;
    kafka.node(1).limit_files(256 << 10);
    emit(&sink.db, &topic, 201, 10_000).await;
    kafka.node(1).ended().await;
    relay.wait_for_log("no connection to the broker").await;
    assert_eq!(sink.number("status = 'FAILED'").await, 0);
    assert!(sink.number("status = 'PENDING'").await > 0);
    kafka.node(1).start().await;
    wait_for_counts(&sink.db, (0, 10_200, 0), 2 * SOON).await;
    sink.assert_sent_once(&topic, 10_200).await;
}

#[tokio::test]
async fn while_one_disk_of_a_broker_is_full_what_is_for_another_is_sent_and_the_rest_once_there_is_room() {
    let Some(builder) = private() else { return };
    let builder = builder.set("log.dirs", "first,second").set("metadata.log.dir", "metadata");
    let kafka = builder.start().await;
    // A new partition lies where there are fewest.
    let (full, other) = (kafka.topic(1, &[]).await, kafka.topic(1, &[]).await);
    let sink = Sink::new(&kafka).await;
    let _relay = sink.relay().set("confirm-timeout", "3s").set("retry-max", "1s").start().await;
    emit(&sink.db, &full, 1, 200).await;
    wait_for_counts(&sink.db, (0, 200, 0), SOON).await;
    kafka.node(1).limit_files(256 << 10);
    emit(&sink.db, &full, 201, 10_000).await;
    let mut sent = 0;
    eventually("the broker has given the disk up", SOON, async || {
        run(&sink.db, &format!("SELECT outbox.emit('{other}', '0'::json)")).await;
        sent += 1;
        let told = sink.number("status = 'PENDING' AND last_error LIKE '5 LEADER_NOT_AVAILABLE%'").await;
        if told > 0 { Ok(()) } else { Err(told) }
    })
    .await;
    let condition = format!("topic = '{other}' AND status = 'SENT'");
    eventually("the other topic has its events", SOON, async || {
        let arrived = sink.number(&condition).await;
        if arrived == sent { Ok(()) } else { Err((arrived, sent)) }
    })
    .await;
    let mut producer = Producer::to_leader(&kafka, &other).await;
    let answer = producer.produce(&full, batch(NOBODY, -1, vec![record("x")])).await;
    assert_eq!(answer, Answer::refused(56)); // KAFKA_STORAGE_ERROR
    kafka.node(1).stop().await;
    kafka.node(1).start().await;
    wait_for_counts(&sink.db, (0, 10_200 + sent, 0), 4 * SOON).await;
    let records = kafka.records(&full).await;
    assert_all_in_order(&records, 10_200);
    assert_eq!(records.len(), 10_200, "none is there twice");
}
