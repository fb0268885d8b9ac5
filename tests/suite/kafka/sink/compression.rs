//! Batches that the relay compresses, and those that a topic's own setting has the broker compress.

use harness::{Kafka, SOON, eventually};

use super::{Sink, run, shared, wait_for_counts};

/// So much of the same character, which no batch without compression could carry into a topic that takes 5,000 bytes.
const SAME: usize = 20_000;

async fn emit(sink: &Sink<'_>, topic: &str, number: usize) {
    let emit = format!("SELECT outbox.emit('{topic}', to_json('{number} ' || repeat('x', {SAME})))");
    run(&sink.db, &emit).await;
}

fn body(number: usize) -> String {
    format!("\"{number} {}\"", "x".repeat(SAME))
}

/// `tail` shows events that are emitted to the topic meanwhile. Returns how many were emitted.
async fn tail_shows_some(sink: &Sink<'_>, topic: &str) -> usize {
    let tail = sink.relay().arguments(&["tail", topic, "--payload", "--json", "--limit", "3"]).spawn();
    // It shows what arrives after it has found the topic's end.
    let mut emitted = 0;
    eventually("tail has shown three", SOON, async || {
        emitted += 1;
        emit(sink, topic, emitted).await;
        if tail.log_text().matches("xxxx\"").count() >= 3 { Ok(()) } else { Err(tail.log_text().len()) }
    })
    .await;
    emitted
}

/// What the relay compresses by this kind is taken, and read by Kafka's own client and by `tail`.
async fn is_read_by_others(kafka: &Kafka, compression: &str) {
    let topic = kafka.topic(1, &[("max.message.bytes", "5000")]).await;
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay().set("kafka-compression", compression).start().await;
    let emitted = tail_shows_some(&sink, &topic).await;
    let noise = "SELECT string_agg(md5(n::text), '') FROM generate_series(1, 500) AS n";
    run(&sink.db, &format!("SELECT outbox.emit('{topic}', to_json(({noise})))")).await;
    // The broker compares the compressed size with what the topic takes.
    wait_for_counts(&sink.db, (0, i64::try_from(emitted).unwrap(), 1), SOON).await;
    let error: String = sink.db.query_one("SELECT max(last_error) FROM outbox.events", &[]).await.unwrap().get(0);
    assert!(error.starts_with("10 MESSAGE_TOO_LARGE"), "{error}");
    let expected: Vec<String> = (1..=emitted).map(body).collect();
    assert!(kafka.values_in_java(&topic, emitted).await == expected, "{compression}");
}

#[tokio::test]
async fn what_is_compressed_by_gzip_is_read_by_kafkas_own_client_and_by_tail() {
    let Some(kafka) = shared().await else { return };
    is_read_by_others(kafka, "gzip").await;
}

#[tokio::test]
async fn what_is_compressed_by_lz4_is_read_by_kafkas_own_client_and_by_tail() {
    let Some(kafka) = shared().await else { return };
    is_read_by_others(kafka, "lz4").await;
}

#[tokio::test]
async fn what_is_compressed_by_zstd_is_read_by_kafkas_own_client_and_by_tail() {
    let Some(kafka) = shared().await else { return };
    is_read_by_others(kafka, "zstd").await;
}

#[tokio::test]
async fn batches_of_one_mebibyte_are_compressed_and_read_in_their_order() {
    let Some(kafka) = shared().await else { return };
    for compression in ["gzip", "lz4", "zstd"] {
        let topic = kafka.topic(1, &[]).await;
        let sink = Sink::new(kafka).await;
        let insert = format!(
            "SELECT outbox.emit('{topic}', to_json(n || ' ' || repeat(md5(n::text), 30)), aggregate_type => 't', aggregate_id => 'k')
             FROM generate_series(1, 5000) AS n"
        );
        run(&sink.db, &insert).await;
        let _relay = sink.relay().set("kafka-compression", compression).start().await;
        wait_for_counts(&sink.db, (0, 5000, 0), SOON).await;
        let read = kafka.values_in_java(&topic, 5000).await;
        let numbers: Vec<usize> =
            read.iter().map(|body| body[1..].split(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, (1..=5000).collect::<Vec<_>>(), "{compression}");
    }
}

#[tokio::test]
async fn tail_reads_a_topic_whatever_its_own_compression_makes_of_what_the_relay_sends() {
    let Some(kafka) = shared().await else { return };
    for (of_topic, of_relay) in [
        ("snappy", "none"),
        ("snappy", "lz4"),
        ("gzip", "zstd"),
        ("lz4", "none"),
        ("zstd", "none"),
        ("uncompressed", "gzip"),
    ] {
        let topic = kafka.topic(1, &[("compression.type", of_topic)]).await;
        let sink = Sink::new(kafka).await;
        let relay = sink.relay().set("kafka-compression", of_relay).start().await;
        tail_shows_some(&sink, &topic).await;
        assert!(relay.stop().await.success(), "{of_topic} {of_relay}");
    }
}
