//! The relay's own Kafka producer beside krafka, which is Rust alone, and rdkafka, which is librdkafka: the same
//! records to a topic, each in a process of its own (bench/kafka-clients).

use harness::Kafka;

use crate::{bench::Bench, load::Payload, report::Report, sections::kafka::Client};

const SECTION: &str = "publisher";
/// Records of a run: some seconds.
const RECORDS: u64 = 1_000_000;
const OUTBOX: &str = "kafka, outbox";

/// The three in turn.
pub(super) async fn measure(bench: &Bench, report: &mut Report) {
    if let Some(why) = Kafka::missing() {
        return println!("  Kafka is not measured: {why}");
    }
    let Some(client) = Client::find() else { return };
    let kafka = Kafka::private().start().await;
    let mut names = ["outbox", "krafka", "rdkafka"];
    for run in 0..=bench.runs {
        for name in names {
            let published = client.publish(&kafka, name, bench.amount(RECORDS), Payload::B200).await;
            if run > 0 {
                published.add_to(report, SECTION, &format!("kafka, {name}"));
            }
        }
        if let Some(ours) = report.latest(SECTION, OUTBOX, "client CPU") {
            for case in ["kafka, krafka", "kafka, rdkafka"] {
                if let Some(cpu) = report.latest(SECTION, case, "client CPU") {
                    report.add(SECTION, case, "CPU of outbox's", "×", cpu / ours);
                }
            }
        }
        names.rotate_left(1); // none always comes first
    }
}
