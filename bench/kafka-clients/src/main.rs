//! Publishes the same records by one of three producers, and prints what that took.
//!
//! `outbox-kafka-clients <outbox | krafka | rdkafka> <brokers> <topic> <records> <bytes>` prints the seconds until the
//! last record's verdict, and the seconds of CPU of this process, with all threads of the producer.
//!
//! Each producer is idempotent, asks for all replicas (`acks = all`), and is told the verdict of every record. Each has
//! its own defaults, but for what is said in its file. Making each record from its number is part of what is measured.

mod krafka;
mod outbox;
mod rdkafka;
mod sample;

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The most records without a verdict at a time.
const IN_FLIGHT: u64 = 10_000;
/// Records that are handed to the relay's producer together.
const BATCH: u64 = 250;

/// What is published, and where to.
struct Work {
    brokers: String,
    topic: String,
    records: u64,
    body: Vec<u8>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [client, brokers, topic, records, bytes] = &*arguments else {
        panic!("usage: outbox-kafka-clients <outbox | krafka | rdkafka> <brokers> <topic> <records> <bytes>")
    };
    let records = records.parse().expect("a number of records");
    let body = vec![b'x'; bytes.parse().expect("a number of bytes")];
    let work = Work { brokers: brokers.clone(), topic: topic.clone(), records, body };
    let (start, before) = (Instant::now(), cpu_of_this_process());
    let verdicts = match &**client {
        "outbox" => runtime().block_on(outbox::publish(&work)),
        "krafka" => runtime().block_on(krafka::publish(&work)),
        "rdkafka" => rdkafka::publish(&work),
        unknown => panic!("there is no client {unknown:?}"),
    };
    let (took, cpu) = (start.elapsed(), cpu_of_this_process().saturating_sub(before));
    assert_eq!(verdicts, records, "every record is written once");
    println!("{} {}", took.as_secs_f64(), cpu.as_secs_f64());
}

/// As the relay's.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn cpu_of_this_process() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}
