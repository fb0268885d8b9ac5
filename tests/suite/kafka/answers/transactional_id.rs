//! A producer that names itself gets its id with the next epoch each time it asks, and need not write transactions.

use harness::{AclOperation, AclResource, KafkaClient, Listener, SOON, eventually};
use uuid::Uuid;

use crate::kafka::{
    private,
    producer::{Answer, Identity, Producer, batch, record},
    shared,
};

fn name() -> String {
    format!("outbox-{}", Uuid::new_v4().simple())
}

#[tokio::test]
async fn who_asks_again_by_the_same_name_gets_the_same_id_with_the_next_epoch() {
    let Some(kafka) = shared().await else { return };
    let name = name();
    let mut producer = Producer(kafka.client().await);
    let first = producer.identity(Some(&name)).await.unwrap();
    assert_eq!(first.epoch, 0);
    for epoch in 1..4 {
        let mut other = Producer(kafka.client().await);
        assert_eq!(other.identity(Some(&name)).await, Ok(Identity { epoch, ..first }));
    }
}

#[tokio::test]
async fn who_asks_without_a_name_gets_an_id_of_its_own() {
    let Some(kafka) = shared().await else { return };
    let mut producer = Producer(kafka.client().await);
    let [one, other] = [producer.identity(None).await.unwrap(), producer.identity(None).await.unwrap()];
    assert_ne!(one.id, other.id);
    assert_eq!((one.epoch, other.epoch), (0, 0));
}

#[tokio::test]
async fn with_the_id_of_a_name_batches_outside_a_transaction_are_taken() {
    let Some(kafka) = shared().await else { return };
    let (topic, name) = (kafka.topic(1, &[]).await, name());
    let mut producer = Producer::to_leader(kafka, &topic).await;
    for epoch in 0..2 {
        let identity = producer.identity(Some(&name)).await.unwrap();
        assert_eq!(identity.epoch, epoch);
        for number in 0..2 {
            let answer = producer.produce(&topic, batch(identity, number, vec![record("x")])).await;
            assert_eq!(answer, Answer::written(i64::from(2 * i32::from(epoch) + number)));
        }
    }
    let epochs = kafka.records(&topic).await.into_iter().map(|record| record.producer.1);
    assert_eq!(epochs.collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[tokio::test]
async fn the_old_epoch_of_a_name_is_refused_only_where_the_new_one_has_written() {
    let Some(kafka) = shared().await else { return };
    let (topic, name) = (kafka.topic(3, &[]).await, name());
    let mut producer = Producer::to_leader(kafka, &topic).await;
    let old = producer.identity(Some(&name)).await.unwrap();
    for partition in [0, 1] {
        producer.produce_to(&topic, partition, batch(old, 0, vec![record("old")])).await;
    }
    let new = producer.identity(Some(&name)).await.unwrap();
    assert_eq!(producer.produce_to(&topic, 0, batch(new, 0, vec![record("new")])).await, Answer::written(1));

    let late = |first| batch(old, first, vec![record("late")]);
    assert_eq!(producer.produce_to(&topic, 0, late(1)).await, Answer::refused(47));
    assert_eq!(producer.produce_to(&topic, 1, late(1)).await, Answer::written(1)); // where the old one wrote
    assert_eq!(producer.produce_to(&topic, 2, late(0)).await, Answer::written(0)); // where nobody wrote
}

#[tokio::test]
async fn a_name_needs_the_right_to_write_by_it_and_batches_need_that_of_the_topic_alone() {
    let Some(kafka) = private() else { return };
    let kafka = kafka.user("alice", "secret").acls().start().await;
    let (topic, name) = (kafka.topic(1, &[]).await, name());
    let mut alice = Producer(KafkaClient::connect(kafka.nodes()[0].port(Listener::Sasl)).await);
    assert_eq!(alice.0.log_in("alice", "secret").await, 0);

    assert_eq!(alice.identity(Some(&name)).await, Err(53));
    assert_eq!(alice.identity(None).await, Err(31));
    kafka.allow("alice", AclResource::TransactionalId(&name), AclOperation::Describe).await;
    eventually("the coordinator is told", SOON, async || {
        let code = alice.coordinator(&name).await;
        if code == 0 { Ok(()) } else { Err(code) }
    })
    .await;
    assert_eq!(alice.identity(Some(&name)).await, Err(53));

    kafka.allow("alice", AclResource::TransactionalId(&name), AclOperation::Write).await;
    let identity = eventually("alice gets an id", SOON, async || alice.identity(Some(&name)).await).await;
    assert_eq!(alice.produce(&topic, batch(identity, 0, vec![record("x")])).await, Answer::refused(29));

    kafka.allow("alice", AclResource::Topic(&topic), AclOperation::Write).await;
    eventually("alice may write", SOON, async || {
        let answer = alice.produce(&topic, batch(identity, 0, vec![record("x")])).await;
        if answer == Answer::written(0) { Ok(()) } else { Err(answer) }
    })
    .await;
    assert!(alice.identity(None).await.is_ok(), "who may write to a topic gets an id without a name");
}
