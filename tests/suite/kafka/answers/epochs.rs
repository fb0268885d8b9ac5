//! A producer may take the next epoch of its id by itself: that shuts out who still writes with the old one.

use crate::kafka::{
    producer::{Answer, Producer, batch, record},
    shared,
};

#[tokio::test]
async fn a_client_may_choose_the_next_epoch_and_the_old_one_is_refused_in_that_partition_alone() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(2, &[]).await;
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let old = producer.identity(None).await.unwrap();
    let new = old.next_epoch();
    for partition in [0, 1] {
        let answer = producer.produce_to(&topic, partition, batch(old, 0, vec![record("old")])).await;
        assert_eq!(answer, Answer::written(0));
    }

    let answer = producer.produce_to(&topic, 0, batch(new, 0, vec![record("new")])).await;
    assert_eq!(answer, Answer::written(1));
    let late = batch(old, 1, vec![record("late")]);
    assert_eq!(producer.produce_to(&topic, 0, late.clone()).await, Answer::refused(47));
    assert_eq!(producer.produce_to(&topic, 1, late).await, Answer::written(1));
}

#[tokio::test]
async fn a_new_epoch_starts_at_number_0() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let old = producer.identity(None).await.unwrap();
    let new = old.next_epoch();
    assert_eq!(producer.produce(&topic, batch(old, 0, vec![record("old")])).await, Answer::written(0));
    assert_eq!(producer.produce(&topic, batch(new, 1, vec![record("new")])).await, Answer::refused(45));
    assert_eq!(producer.produce(&topic, batch(new, 0, vec![record("new")])).await, Answer::written(1));
}
