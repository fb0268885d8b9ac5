//! A transaction without records shuts earlier epochs of a name out of the partitions that were added to it.

use harness::{SOON, eventually};
use uuid::Uuid;

use crate::kafka::{
    producer::{Answer, Producer, batch, record},
    shared,
};

#[tokio::test]
async fn an_empty_transaction_shuts_the_old_epoch_out_of_its_partitions_and_consumers_see_nothing_of_it() {
    let Some(kafka) = shared().await else { return };
    let (topic, name) = (kafka.topic(3, &[]).await, format!("outbox-{}", Uuid::new_v4().simple()));
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let old = producer.identity(Some(&name)).await.unwrap();
    assert_eq!(producer.produce_to(&topic, 0, batch(old, 0, vec![record("old")])).await, Answer::written(0));
    let new = producer.identity(Some(&name)).await.unwrap();
    producer.empty_transaction(&name, new, &topic, &[0, 1]).await;

    let late = |first| batch(old, first, vec![record("late")]);
    for (partition, first) in [(0, 1), (1, 0)] {
        // The marker is written a moment after the answer, so that the first of these may still be taken.
        eventually("the marker is there", SOON, async || {
            match producer.produce_to(&topic, partition, late(first)).await {
                Answer { code: 47, .. } => Ok(()),
                answer => Err(answer),
            }
        })
        .await;
    }
    assert_eq!(producer.produce_to(&topic, 2, late(0)).await, Answer::written(0), "this one was not added");

    let before = kafka.records(&topic).await.len();
    for partition in [0, 1] {
        let first = producer.produce_to(&topic, partition, batch(new, 0, vec![record("new")])).await;
        assert_eq!(first.code, 0, "the new epoch begins with 0, outside a transaction");
    }
    assert_eq!(kafka.records(&topic).await.len(), before + 2);
}

#[tokio::test]
async fn behind_the_marker_a_batch_has_to_begin_with_0() {
    let Some(kafka) = shared().await else { return };
    let (topic, name) = (kafka.topic(1, &[]).await, format!("outbox-{}", Uuid::new_v4().simple()));
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let old = producer.identity(Some(&name)).await.unwrap();
    let new = producer.identity(Some(&name)).await.unwrap();
    producer.empty_transaction(&name, new, &topic, &[0]).await;
    eventually("the marker is there", SOON, async || {
        match producer.produce(&topic, batch(old, 0, vec![record("old")])).await {
            Answer { code: 47, .. } => Ok(()),
            answer => Err(answer),
        }
    })
    .await;
    assert_eq!(producer.produce(&topic, batch(new, 7, vec![record("x")])).await, Answer::refused(45));
    let first = producer.produce(&topic, batch(new, 0, vec![record("x")])).await;
    assert_eq!(first.code, 0, "{first:?}");
}
