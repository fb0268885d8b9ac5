//! What becomes of topics, rights and brokers under a relay at work.

use harness::{AclOperation, AclResource, SOON};

use super::{Sink, assert_all_in_order, emit, private, run, shared, wait_for_counts};

#[tokio::test]
async fn a_right_that_is_taken_away_and_given_back_fails_only_what_was_emitted_between() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(1, &[]).await;
    for operation in [AclOperation::Read, AclOperation::Write, AclOperation::Describe] {
        kafka.allow("app", AclResource::Topic(&topic), operation).await;
    }
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay_of_app().start().await;
    emit(&sink.db, &topic, 1, 20).await;
    wait_for_counts(&sink.db, (0, 20, 0), SOON).await;
    kafka.disallow("app", AclResource::Topic(&topic), AclOperation::Write).await;
    emit(&sink.db, &topic, 21, 20).await;
    wait_for_counts(&sink.db, (0, 20, 20), SOON).await;
    kafka.allow("app", AclResource::Topic(&topic), AclOperation::Write).await;
    run(&sink.db, "SELECT outbox.replay(id) FROM outbox.events WHERE status = 'FAILED' ORDER BY seq").await;
    wait_for_counts(&sink.db, (0, 40, 0), SOON).await;
    let records = kafka.records(&topic).await;
    assert_all_in_order(&records, 40);
    assert_eq!(records.len(), 40, "none is there twice");
}

#[tokio::test]
async fn a_topic_that_is_deleted_and_made_again_gets_what_was_emitted_since_then_in_order() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(3, &[]).await;
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay().set("unroutable", "retry").set("retry-max", "1s").start().await;
    emit(&sink.db, &topic, 1, 200).await;
    wait_for_counts(&sink.db, (0, 200, 0), SOON).await;
    kafka.delete_topic(&topic).await;
    run(&sink.db, "DELETE FROM outbox.events").await;
    emit(&sink.db, &topic, 1, 300).await;
    kafka.create_topic(&topic, 3, &[]).await; // with more of them, keys would move
    emit(&sink.db, &topic, 301, 300).await;
    wait_for_counts(&sink.db, (0, 600, 0), SOON).await;
    let records = kafka.records(&topic).await;
    assert_all_in_order(&records, 600);
    assert_eq!(records.len(), 600, "none is there twice");
}

#[tokio::test]
async fn a_cluster_without_its_majority_gets_everything_once_when_that_is_back() {
    let Some(builder) = private() else { return };
    let kafka = builder.three_nodes().start().await;
    let topic = kafka.topic(3, &[("min.insync.replicas", "2")]).await;
    let sink = Sink::new(&kafka).await;
    let relay = sink.relay().set("confirm-timeout", "5s").set("max-attempts", "1").start().await;
    emit(&sink.db, &topic, 1, 500).await;
    wait_for_counts(&sink.db, (0, 500, 0), SOON).await;
    for node in [1, 2] {
        kafka.node(node).kill().await;
    }
    emit(&sink.db, &topic, 501, 500).await;
    relay.wait_for_log("no connection to the broker").await;
    let sql = "SELECT count(*) FROM outbox.events WHERE status = 'FAILED'";
    assert_eq!(sink.db.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
    for node in [1, 2] {
        kafka.node(node).start().await;
    }
    wait_for_counts(&sink.db, (0, 1000, 0), 4 * SOON).await;
    let records = kafka.records(&topic).await;
    assert_all_in_order(&records, 1000);
    assert_eq!(records.len(), 1000, "none is there twice");
}
