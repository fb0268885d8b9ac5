//! The relay with Kafka as its broker, beside Kafka alone, and beside Debezium Server to the same Kafka.
//!
//! Kafka runs as the tests run it: one node, 256 MB of heap, which does not write to disk before it answers. Topics
//! have four partitions. Debezium Server passes payloads and keys on as text, which costs it least; all else is as it
//! comes.

mod alone;
mod at_once;
mod debezium;
mod latency;
mod relay;

use harness::{Database, Debezium, Kafka, Listener, RelayBuilder};

use self::debezium::Peer;
use crate::{bench::Bench, load::Payload, report::Report, run::Run};

pub(crate) use self::alone::Client;

const SECTION: &str = "kafka";
const PARTITIONS: i32 = 4;

/// What every case is given.
struct Setup<'a> {
    bench: &'a Bench,
    kafka: Kafka,
}

impl Setup<'_> {
    /// The relay from a database to a topic.
    fn relay(&self, db: &Database, topic: &str) -> RelayBuilder {
        let url = format!("kafka://{}", self.kafka.addresses(Listener::Plain));
        let relay = RelayBuilder::new().set("database-url", db.url()).set("slot", db.name()).set("kafka-url", &url);
        self.bench.configured(relay.set("kafka-topic", topic))
    }

    fn run<'a>(&'a self, db: &'a Database) -> Run<'a> {
        Run { bench: self.bench, db, broker: self.kafka.node(1).pid(), section: SECTION }
    }

    async fn topic(&self) -> String {
        self.kafka.topic(PARTITIONS, &[]).await
    }
}

/// Everything of this section.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) {
    if let Some(why) = Kafka::missing() {
        return println!("  not measured: {why}");
    }
    let debezium = Debezium::home();
    if debezium.is_none() {
        println!("  without Debezium Server: DEBEZIUM_SERVER is not set; make bench ONLY=kafka fetches it");
    }
    let setup = Setup { bench, kafka: Kafka::private().start().await };
    println!("  warm-up");
    relay::backlog(&setup, &mut Report::default(), Payload::B200, crate::run::MANY_KEYS).await;
    for _ in 0..bench.runs {
        alone::measure(&setup, report).await;
        relay::measure(&setup, report).await;
        latency::measure(&setup, report).await;
        if let Some(home) = &debezium {
            Peer { setup: &setup, home }.measure(report).await;
        }
    }
}
