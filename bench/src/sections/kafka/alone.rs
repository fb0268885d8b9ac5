//! Kafka alone: the relay's producer with nothing else to do, and another one.

use std::{
    ffi::OsString,
    process::{Command, Stdio},
    time::Duration,
};

use harness::{Kafka, Listener};

use super::{SECTION, Setup};
use crate::{
    bench::rate,
    broker::on_own_thread,
    cpu::{self, us_per_event},
    load::Payload,
    report::Report,
};

/// So many take some seconds.
const RECORDS: u64 = 1_000_000;

/// The program in `bench/kafka-clients`, which the variable `KAFKA_CLIENTS` names.
pub(crate) struct Client(OsString);

/// What a client took for its records.
pub(crate) struct Published {
    pub(crate) rate: f64,
    pub(crate) client_cpu_us: f64,
    pub(crate) broker_cpu_us: f64,
}

impl Client {
    /// `None`, and a line that says so: it was not built.
    pub(crate) fn find() -> Option<Self> {
        let client = std::env::var_os("KAFKA_CLIENTS").map(Self);
        if client.is_none() {
            println!("  no clients of Kafka: KAFKA_CLIENTS is not set; make bench builds them");
        }
        client
    }

    /// Publishes by the client of this name, and waits for the last verdict.
    pub(crate) async fn publish(&self, kafka: &Kafka, name: &str, records: u64, payload: Payload) -> Published {
        let topic = kafka.topic(super::PARTITIONS, &[]).await;
        let mut command = Command::new(&self.0);
        command.args([name, &kafka.addresses(Listener::Plain), &topic, &records.to_string()]);
        command.arg(payload.bytes().to_string());
        let broker = kafka.node(1).pid();
        let before = cpu::used_by(broker);
        let output = on_own_thread(move || command.stderr(Stdio::inherit()).output()).await.expect("the client starts");
        let broker_cpu = cpu::used_by(broker).saturating_sub(before);
        assert!(output.status.success(), "{name}: {}", output.status);
        let text = String::from_utf8(output.stdout).expect("text");
        let seconds: Vec<f64> = text.split_whitespace().map(|part| part.parse().expect("seconds")).collect();
        let [took, cpu] = &*seconds else { panic!("{name}: {text}") };
        assert_eq!(kafka.count(&topic).await, records, "{name}: each record is there once");
        kafka.delete_topic(&topic).await;
        Published {
            rate: rate(records, Duration::from_secs_f64(*took)),
            client_cpu_us: us_per_event(Duration::from_secs_f64(*cpu), records),
            broker_cpu_us: us_per_event(broker_cpu, records),
        }
    }
}

pub(super) fn case(client: &str, payload: Payload) -> String {
    format!("Kafka alone, {payload}, {client}")
}

pub(super) async fn measure(setup: &Setup<'_>, report: &mut Report) {
    let Some(client) = Client::find() else { return };
    for payload in [Payload::B200, Payload::Kb1] {
        for name in ["outbox", "rdkafka"] {
            let case = case(name, payload);
            if setup.bench.wants(&case) {
                let records = setup.bench.amount(RECORDS) * 200 / payload.bytes() as u64;
                client.publish(&setup.kafka, name, records, payload).await.add_to(report, SECTION, &case);
            }
        }
    }
}

impl Published {
    pub(crate) fn add_to(&self, report: &mut Report, section: &str, case: &str) {
        report.add(section, case, "rate", "/s", self.rate);
        report.add(section, case, "client CPU", "µs", self.client_cpu_us);
        report.add(section, case, "broker CPU", "µs", self.broker_cpu_us);
        println!(
            "  {case}: {:.0}/s, client {:.2} µs, broker {:.2} µs",
            self.rate, self.client_cpu_us, self.broker_cpu_us
        );
    }
}
