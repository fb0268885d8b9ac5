use harness::{Listener, SOON, eventually};

use super::{Sink, emit, shared};

#[tokio::test]
async fn tail_shows_what_reaches_a_topic() {
    let Some(kafka) = shared().await else { return };
    let topic = kafka.topic(2, &[]).await;
    let sink = Sink::new(kafka).await;
    let _relay = sink.relay().start().await;
    let tail = sink.relay().arguments(&["tail", &topic, "--payload", "--json", "--limit", "5"]).spawn();
    // It shows what arrives after it has found the topic's end.
    let mut emitted = 0;
    eventually("it has shown five", SOON, async || {
        emitted += 1;
        emit(&sink.db, &topic, emitted, 1).await;
        if tail.log_text().matches("\"offset\"").count() >= 5 { Ok(()) } else { Err(tail.log_text()) }
    })
    .await;
    let shown = tail.log_text();
    let first: serde_json::Value =
        serde_json::from_str(shown.lines().find(|line| line.contains("offset")).unwrap()).unwrap();
    assert_eq!((&first["topic"], &first["aggregate_type"]), (&topic.as_str().into(), &"order".into()), "{first}");
    assert!(first["payload"].is_number() && first["message_id"].is_string(), "{first}");
    assert!(kafka.addresses(Listener::Plain).starts_with("127.0.0.1:"));
}
