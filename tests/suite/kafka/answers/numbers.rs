//! A producer with an id numbers its records, and Kafka writes a batch only behind the one before.

use harness::{Kafka, SOON, eventually};

use crate::kafka::{
    private,
    producer::{Answer, Identity, NOBODY, Producer, batch, record},
    shared,
};

/// A topic that refuses large batches, a producer for it, and its id.
async fn open(kafka: &Kafka) -> (String, Producer, Identity) {
    let topic = kafka.topic(1, &[("max.message.bytes", "2000")]).await;
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let identity = producer.identity(None).await.unwrap();
    (topic, producer, identity)
}

fn large() -> Vec<u8> {
    vec![b'x'; 5_000]
}

async fn values(kafka: &Kafka, topic: &str) -> Vec<Vec<u8>> {
    kafka.records(topic).await.into_iter().map(|record| record.value.unwrap().to_vec()).collect()
}

#[tokio::test]
async fn behind_a_refused_batch_nothing_is_written_and_its_numbers_are_taken_afterwards() {
    let Some(kafka) = shared().await else { return };
    let (topic, mut producer, identity) = open(kafka).await;
    producer.send(&topic, 0, -1, batch(identity, 0, vec![record("a")])).await;
    producer.send(&topic, 0, -1, batch(identity, 1, vec![record(large())])).await;
    for (first, value) in [(2, "b"), (3, "c"), (4, "d")] {
        producer.send(&topic, 0, -1, batch(identity, first, vec![record(value)])).await;
    }
    for expected in [Answer::written(0), Answer::refused(10)] {
        assert_eq!(producer.answer().await, expected);
    }
    for _ in 0..3 {
        assert_eq!(producer.answer().await, Answer::refused(45));
    }
    assert_eq!(values(kafka, &topic).await, [b"a"]);

    for (first, value) in [(1, "b"), (2, "c"), (3, "d")] {
        let answer = producer.produce(&topic, batch(identity, first, vec![record(value)])).await;
        assert_eq!(answer, Answer::written(i64::from(first)));
    }
    assert_eq!(values(kafka, &topic).await, [b"a", b"b", b"c", b"d"]);
}

#[tokio::test]
async fn behind_a_refused_batch_of_a_producer_without_an_id_the_others_are_written() {
    let Some(kafka) = shared().await else { return };
    let (topic, mut producer, _) = open(kafka).await;
    for value in [b"a".to_vec(), large(), b"b".to_vec()] {
        producer.send(&topic, 0, -1, batch(NOBODY, -1, vec![record(value)])).await;
    }
    for expected in [Answer::written(0), Answer::refused(10), Answer::written(1)] {
        assert_eq!(producer.answer().await, expected);
    }
    assert_eq!(values(kafka, &topic).await, [b"a", b"b"]);
}

#[tokio::test]
async fn one_of_the_last_five_batches_sent_again_is_written_once_and_has_its_first_offset() {
    let Some(kafka) = shared().await else { return };
    let (topic, mut producer, identity) = open(kafka).await;
    let batches: Vec<_> = (0..6).map(|first| batch(identity, first, vec![record(first.to_string())])).collect();
    for bytes in &batches[..5] {
        producer.produce(&topic, bytes.clone()).await;
    }
    for (offset, bytes) in (0..).zip(&batches[..5]) {
        assert_eq!(producer.produce(&topic, bytes.clone()).await, Answer::written(offset));
    }
    assert_eq!(producer.produce(&topic, batches[5].clone()).await, Answer::written(5));
    assert_eq!(producer.produce(&topic, batches[1].clone()).await, Answer::written(1));
    assert_eq!(values(kafka, &topic).await, [b"0", b"1", b"2", b"3", b"4", b"5"]);
}

#[tokio::test]
async fn an_earlier_batch_sent_again_is_refused_as_one_behind_a_gap() {
    let Some(kafka) = shared().await else { return };
    let (topic, mut producer, identity) = open(kafka).await;
    let batches: Vec<_> = (0..6).map(|first| batch(identity, first, vec![record(first.to_string())])).collect();
    for bytes in &batches {
        producer.produce(&topic, bytes.clone()).await;
    }
    assert_eq!(producer.produce(&topic, batches[0].clone()).await, Answer::refused(45)); // written
    assert_eq!(producer.produce(&topic, batch(identity, 9, vec![record("9")])).await, Answer::refused(45)); // not
    assert_eq!(kafka.records(&topic).await.len(), 6);
}

#[tokio::test]
async fn a_broker_that_does_not_know_the_producer_takes_a_batch_with_any_number_and_then_only_the_next_one() {
    let Some(kafka) = shared().await else { return };
    let (topic, mut producer, identity) = open(kafka).await;
    assert_eq!(producer.produce(&topic, batch(identity, 7, vec![record("7")])).await, Answer::written(0));
    for behind in [6, 9] {
        let answer = producer.produce(&topic, batch(identity, behind, vec![record("not")])).await;
        assert_eq!(answer, Answer::refused(45), "{behind}");
    }
    assert_eq!(producer.produce(&topic, batch(identity, 8, vec![record("8")])).await, Answer::written(1));
}

#[tokio::test]
async fn a_broker_forgets_a_producer_that_has_written_nothing_for_long_and_takes_any_number_again() {
    let Some(kafka) = private() else { return };
    let short = [("producer.id.expiration.ms", "1000"), ("producer.id.expiration.check.interval.ms", "200")];
    let kafka = short.iter().fold(kafka, |kafka, (name, value)| kafka.set(name, value)).start().await;
    let (topic, mut producer, identity) = open(&kafka).await;
    assert_eq!(producer.produce(&topic, batch(identity, 0, vec![record("0")])).await, Answer::written(0));
    eventually("the gap is not seen", SOON, async || {
        let answer = producer.produce(&topic, batch(identity, 5, vec![record("5")])).await;
        if answer == Answer::written(1) { Ok(()) } else { Err(answer) }
    })
    .await;
    // So a batch that is sent again after that is written twice.
    eventually("the same is taken again", SOON, async || {
        let answer = producer.produce(&topic, batch(identity, 5, vec![record("5")])).await;
        if answer == Answer::written(2) { Ok(()) } else { Err(answer) }
    })
    .await;
}
