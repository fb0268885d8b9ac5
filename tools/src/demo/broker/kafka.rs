//! Kafka, with a consumer that follows its topics.

use std::{
    mem,
    sync::Mutex,
    time::{Duration, Instant, SystemTime},
};

use harness::{Kafka as Server, KafkaFollower, KafkaRecord, Listener};
use tokio::sync::mpsc::{Receiver, channel};
use uuid::Uuid;

use super::{Arrival, Words};
use crate::screen::{Screen, message_line};

/// All events of an order go to one topic, so that they arrive in order.
const TOPIC_SETTING: &str = "{aggregate_type}";

pub(super) const WORDS: Words = Words {
    id: "header id",
    unroutable: "An event for a topic that does not exist",
    emit: r#"SELECT outbox.emit('invoices.created', '{"invoice": 7}', aggregate_type => 'invoice', aggregate_id => '7')"#,
    why: "the broker has no topic invoice: not lost, not taken for delivered",
    error: "3 UNKNOWN_TOPIC_OR_PARTITION",
    mend: "kafka-topics.sh --create --topic invoice",
    mended: "The topic is created, the event is replayed",
};

pub(super) const STATEMENTS: [&str; 4] = [
    r#"SELECT outbox.emit('orders.created', '{"order": 4711}', aggregate_type => 'order', aggregate_id => '4711');"#,
    r#"SELECT outbox.emit('orders.created', '{}', aggregate_type => 'order', aggregate_id => '4712', available_at => now() + interval '5 s');"#,
    "SELECT count(outbox.emit('orders.created', to_jsonb(n), aggregate_type => 'order', aggregate_id => n::text)) FROM generate_series(1, 100000) AS n;",
    "SELECT outbox.emit('nobody.listens', '{}', aggregate_type => 'nobody', aggregate_id => '1');",
];

/// How often the player is shown what has arrived.
const PAUSE: Duration = Duration::from_millis(50);

/// The server, and a consumer of each topic. Dropped from top to bottom.
pub(crate) struct Kafka {
    followers: Vec<KafkaFollower>,
    arrived: Mutex<Vec<Arrival>>,
    server: Server,
}

impl Kafka {
    pub(super) async fn start(screen: &Screen) -> Self {
        if let Some(why) = Server::missing() {
            panic!("no Kafka here: {why}");
        }
        let begin = Instant::now();
        let server = Server::private().start().await;
        let time = begin.elapsed();
        screen.timed(&format!("Kafka {}", Server::version()), &server.addresses(Listener::Plain), time);
        Self { followers: Vec::new(), arrived: Mutex::default(), server }
    }

    /// The topic is there before the first event, or that event would fail.
    pub(super) async fn consume(&mut self, screen: &Screen) {
        let begin = Instant::now();
        self.server.create_topic("order", 3, &[]).await;
        self.followers.push(self.server.follow("order").await);
        let text = "it follows the topic order, which has three partitions";
        screen.timed("consumer", text, begin.elapsed());
        screen.fact("relay's setting", &format!("kafka_topic = \"{TOPIC_SETTING}\""));
    }

    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let url = format!("kafka://{}", self.server.addresses(Listener::Plain));
        vec![("kafka-url", url), ("kafka-topic", TOPIC_SETTING.to_owned())]
    }

    pub(super) async fn create_topic(&mut self) {
        self.server.create_topic("invoice", 1, &[]).await;
        self.followers.push(self.server.follow("invoice").await);
    }

    pub(super) fn addresses(&self) -> Vec<(&'static str, String)> {
        vec![("Kafka", self.server.addresses(Listener::Plain))]
    }

    pub(super) fn port(&self) -> u16 {
        self.server.node(1).port(Listener::Plain)
    }

    pub(super) fn count(&self) -> usize {
        self.followers.iter().map(KafkaFollower::count).sum::<usize>()
            + self.arrived.lock().expect("no panic while locked").len()
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        let mut arrived = self.arrived.lock().expect("no panic while locked");
        for follower in &self.followers {
            arrived.extend(follower.take().into_iter().map(|(record, at)| arrival(follower.topic(), &record, at)));
        }
        arrived.clone()
    }

    /// Lets go of what has arrived, so that a flood is not remembered.
    pub(super) fn watch(&mut self) -> Receiver<String> {
        let followers = mem::take(&mut self.followers);
        let (lines, watched) = channel(1000);
        tokio::spawn(async move {
            loop {
                for follower in &followers {
                    for (record, _) in follower.take() {
                        let id = record.header("id").unwrap_or_default();
                        let line = message_line(id, follower.topic(), record.value.as_deref().unwrap_or_default());
                        if lines.send(line).await.is_err() {
                            return; // nobody watches any more
                        }
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        watched
    }
}

fn arrival(topic: &str, record: &KafkaRecord, received: SystemTime) -> Arrival {
    let key = record.key.as_deref().map(|key| String::from_utf8_lossy(key).into_owned());
    Arrival {
        id: record.header("id").and_then(|id| Uuid::parse_str(id).ok()).unwrap_or_default(),
        destination: topic.to_owned(),
        key: record.header("aggregate_type").map(str::to_owned).zip(key),
        seq: record.header("x-outbox-seq").and_then(|seq| seq.parse().ok()),
        body: record.value.as_deref().unwrap_or_default().to_vec(),
        received,
    }
}
