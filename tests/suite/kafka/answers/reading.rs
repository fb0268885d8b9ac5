//! What a consumer sees.

use harness::SOON;

use crate::kafka::{
    private,
    producer::{Answer, NOBODY, Producer, batch, now, record},
    shared,
};

#[tokio::test]
async fn a_consumer_sees_only_what_all_replicas_in_sync_have() {
    let Some(kafka) = private() else { return };
    // A frozen node stays in sync for longer than this test takes.
    let kafka = kafka
        .three_nodes()
        .set("broker.session.timeout.ms", "120000")
        .set("replica.lag.time.max.ms", "120000")
        .start()
        .await;
    let topic = kafka.topic(1, &[]).await;
    let leader = kafka.leader(&topic, 0).await;
    let mut producer = Producer::to_leader(&kafka, &topic).await;
    assert_eq!(producer.produce(&topic, batch(NOBODY, -1, vec![record("all")])).await, Answer::written(0));
    let mut consumer = kafka.consumer(&topic);
    consumer.wait_for(1).await;

    let follower = kafka.nodes().iter().find(|node| node.id() != leader).unwrap();
    follower.pause();
    producer.send(&topic, 0, 1, batch(NOBODY, -1, vec![record("leader")])).await;
    assert_eq!(producer.answer().await, Answer::written(1));
    assert_eq!(consumer.read().await.len(), 1);
    assert_eq!(kafka.offset_at(&topic, 0, -1).await, 1, "nor is it told that there is more");

    follower.resume();
    assert_eq!(consumer.wait_for_within(2, SOON).await.len(), 2);
    assert_eq!(kafka.offset_at(&topic, 0, -1).await, 2);
}

#[tokio::test]
async fn asked_for_a_time_kafka_names_the_first_record_of_it_or_of_a_later_one() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let time = now();
    // Two batches: of the first record's time, 0, 20 and 10 ms later; and 30 ms later.
    for later in [&[0, 20, 10][..], &[30]] {
        let records = later.iter().map(|ms| {
            let mut record = record("x");
            record.timestamp = time + ms;
            record
        });
        producer.produce(&topic, batch(NOBODY, -1, records.collect())).await;
    }
    for (ms, offset) in [(-1_000, 0), (0, 0), (1, 1), (10, 1), (20, 1), (21, 3), (30, 3), (31, -1)] {
        assert_eq!(kafka.offset_at(&topic, 0, time + ms).await, offset, "{ms} ms after the first");
    }
    assert_eq!([kafka.offset_at(&topic, 0, -2).await, kafka.offset_at(&topic, 0, -1).await], [0, 4]);
    let empty = kafka.topic(1, &[]).await;
    assert_eq!(kafka.offset_at(&empty, 0, time).await, -1);
}
