//! What Kafka refuses, and whether it says which record is to blame.

use std::time::Duration;

use harness::Kafka;
use kafka_protocol::{
    messages::{MetadataRequest, TopicName, metadata_request::MetadataRequestTopic},
    protocol::StrBytes,
};

use crate::kafka::{
    producer::{Answer, Identity, Producer, batch, now, record},
    shared,
};

async fn open(kafka: &Kafka, settings: &[(&str, &str)]) -> (String, Producer, Identity) {
    let topic = kafka.topic(1, settings).await;
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let identity = producer.identity(None).await.unwrap();
    (topic, producer, identity)
}

#[tokio::test]
async fn records_without_a_key_in_a_compacted_topic_are_named_and_nothing_of_the_batch_is_written() {
    let Some(kafka) = shared().await else { return };
    let (topic, mut producer, identity) = open(kafka, &[("cleanup.policy", "compact")]).await;
    let mut records = ["a", "b", "c"].map(record).to_vec();
    records[0].key = None;
    records[2].key = None;
    let answer = producer.produce(&topic, batch(identity, 0, records)).await;
    assert_eq!(answer, Answer { culprits: vec![0, 2], ..Answer::refused(87) });
    assert_eq!(kafka.records(&topic).await, []);
}

#[tokio::test]
async fn a_record_more_than_an_hour_ahead_is_named_and_nothing_of_the_batch_is_written() {
    let Some(kafka) = shared().await else { return };
    // The default since Kafka 4.0.
    let (topic, mut producer, identity) = open(kafka, &[("message.timestamp.after.max.ms", "3600000")]).await;
    let hour = i64::try_from(Duration::from_secs(3_600).as_millis()).unwrap();
    let mut records = ["a", "b", "c"].map(record).to_vec();
    records[1].timestamp = now() + hour + 60_000;
    let answer = producer.produce(&topic, batch(identity, 0, records.clone())).await;
    assert_eq!(answer, Answer { culprits: vec![1], ..Answer::refused(32) });
    assert_eq!(kafka.records(&topic).await, []);

    records[1].timestamp = now() + hour - 60_000;
    assert_eq!(producer.produce(&topic, batch(identity, 0, records)).await, Answer::written(0));
}

#[tokio::test]
async fn a_batch_over_the_topics_limit_is_refused_and_no_record_is_named() {
    let Some(kafka) = shared().await else { return };
    let (topic, mut producer, identity) = open(kafka, &[("max.message.bytes", "2000")]).await;
    let records = [&b"a"[..], &[b'x'; 5_000], b"c"].map(record).to_vec();
    assert_eq!(producer.produce(&topic, batch(identity, 0, records)).await, Answer::refused(10));
    assert_eq!(kafka.records(&topic).await, []);
}

#[tokio::test]
async fn an_unknown_topic_is_refused_at_once_and_not_created() {
    let Some(kafka) = shared().await else { return };
    let (_, mut producer, identity) = open(kafka, &[]).await;
    assert_eq!(producer.produce("unknown", batch(identity, 0, vec![record("a")])).await, Answer::refused(3));
    for allowed in [false, true] {
        assert_eq!(code_in_metadata(&mut producer, "unknown", allowed).await, 3);
    }
}

#[tokio::test]
async fn a_name_that_no_topic_can_have_is_an_unknown_topic_to_who_writes_and_a_wrong_name_to_who_asks() {
    let Some(kafka) = shared().await else { return };
    let (_, mut producer, identity) = open(kafka, &[]).await;
    assert_eq!(code_in_metadata(&mut producer, "bad/name", false).await, 17);
    assert_eq!(producer.produce("bad/name", batch(identity, 0, vec![record("a")])).await, Answer::refused(3));
}

async fn code_in_metadata(producer: &mut Producer, topic: &str, auto_creation: bool) -> i16 {
    let name = Some(TopicName(StrBytes::from_string(topic.to_owned())));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![MetadataRequestTopic::default().with_name(name)]))
        .with_allow_auto_topic_creation(auto_creation);
    producer.0.request(12, &request).await.topics[0].error_code
}
