//! The harness's Kafka of three nodes, which are stopped, killed and frozen.

use std::time::Duration;

use harness::{Kafka, KafkaClient, Listener, Proxy, SOON, eventually, free_port};
use kafka_protocol::messages::MetadataRequest;

use super::{
    private,
    producer::{Answer, Producer, batch, record},
};

#[tokio::test]
async fn what_was_acknowledged_outlives_the_leader() {
    let Some(kafka) = private() else { return };
    let kafka = kafka.three_nodes().start().await;
    let topic = kafka.topic(1, &[]).await;
    let mut producer = Producer::to_leader(&kafka, &topic).await;
    let identity = producer.identity(None).await.unwrap();
    for (number, fault) in (0..).zip(["stop", "kill", "freeze"]) {
        let leader = kafka.node(kafka.leader(&topic, 0).await);
        let mut producer = Producer::to_leader(&kafka, &topic).await;
        let answer = producer.produce(&topic, batch(identity, number, vec![record(fault)])).await;
        assert_eq!(answer, Answer::written(i64::from(number)), "{fault}");
        match fault {
            "stop" => leader.stop().await,
            "kill" => leader.kill().await,
            _ => leader.pause(),
        }
        let others = || kafka.nodes().iter().filter(|node| node.id() != leader.id());
        eventually("another node leads", Duration::from_secs(60), async || {
            let port = others().next().unwrap().port(Listener::Plain);
            let now = leader_as_seen_at(port, &topic).await;
            if now == leader.id() || now < 0 { Err(now) } else { Ok(()) }
        })
        .await;
        if fault == "freeze" {
            leader.resume();
        } else {
            leader.start().await;
        }
        eventually("all replicas are in sync", Duration::from_secs(60), async || {
            let in_sync = in_sync(&kafka, &topic).await;
            if in_sync == 3 { Ok(()) } else { Err(in_sync) }
        })
        .await;
        let mut consumer = kafka.consumer(&topic);
        let records = consumer.wait_for(1 + usize::try_from(number).unwrap()).await;
        assert_eq!(records.last().unwrap().value.as_deref(), Some(fault.as_bytes()));
    }
}

#[tokio::test]
async fn clients_are_told_the_way_through_a_proxy() {
    let Some(kafka) = private() else { return };
    let port = free_port();
    let proxy = Proxy::to(port).await;
    let kafka = kafka.proxied(port, proxy.port()).start().await;
    let mut client = KafkaClient::connect(proxy.port()).await;
    let metadata = client.request(12, &MetadataRequest::default().with_topics(None)).await;
    assert_eq!(metadata.brokers[0].port, i32::from(proxy.port()));

    let node = &kafka.nodes()[0];
    let topic = kafka.topic(1, &[]).await;
    node.kill().await;
    node.start().await;
    assert_eq!(leader_as_seen_at(node.port(Listener::Proxied), &topic).await, 1);
}

async fn partition(port: u16, topic: &str) -> (i32, usize) {
    let mut client = KafkaClient::connect(port).await;
    let metadata = client.request(12, &MetadataRequest::default().with_topics(None)).await;
    let topic = metadata.topics.iter().find(|known| known.name.as_ref().is_some_and(|name| name.as_str() == topic));
    topic.map_or((-1, 0), |topic| (topic.partitions[0].leader_id.0, topic.partitions[0].isr_nodes.len()))
}

async fn leader_as_seen_at(port: u16, topic: &str) -> i32 {
    partition(port, topic).await.0
}

async fn in_sync(kafka: &Kafka, topic: &str) -> usize {
    let leader = kafka.node(kafka.leader(topic, 0).await);
    tokio::time::timeout(SOON, partition(leader.port(Listener::Plain), topic)).await.unwrap().1
}
