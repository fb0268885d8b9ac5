//! How long after its commit an event reaches a consumer of Kafka.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use harness::Listener;
use kafka_producer::{From, ProduceConfig, Reader};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{SECTION, Setup, at_once};
use crate::{
    broker::{id_of, on_own_thread},
    emitted::Emitted,
    load::Payload,
    report::Report,
    sections::latency::{Arrivals, EMIT, emit},
};

pub(super) async fn measure(setup: &Setup<'_>, report: &mut Report) {
    for rate in [100, 1000] {
        let case = case(rate);
        if !setup.bench.wants(&case) {
            continue;
        }
        alone(setup, report, rate).await;
        let (db, topic) = (setup.bench.postgres.database().await, setup.topic().await);
        let _relay = setup.relay(&db, &topic).start().await;
        let arrivals = arrivals(setup, &topic).await;
        let emitted = emit(setup.bench, &db, EMIT, rate, Emitted::default()).await;
        let percentiles = arrivals.compare(&emitted);
        assert_eq!(percentiles.never_arrived, 0, "the outbox loses no event");
        percentiles.add(report, SECTION, &case);
        if let Some(alone) = report.latest(SECTION, &alone_case(rate), "p99") {
            report.add(SECTION, &case, "p99 of Kafka alone's", "×", percentiles.p99 / alone);
        }
        setup.kafka.delete_topic(&topic).await;
    }
}

/// From commits at the same rate to the consumer, through a relay that costs nothing and takes no time.
async fn alone(setup: &Setup<'_>, report: &mut Report, rate: u64) {
    let (db, topic) = (setup.bench.postgres.database().await, setup.topic().await);
    let arrivals = arrivals(setup, &topic).await;
    let config = at_once::config(&setup.kafka.addresses(Listener::Plain));
    let (count, to) = (Emitted::default(), topic.clone());
    let counted = count.clone();
    let publisher = on_own_thread(move || at_once::publish(config, &to, Payload::B200.bytes(), &counted));
    let (mut emitted, ()) = tokio::join!(emit(setup.bench, &db, EMIT, rate, count), publisher);
    for event in &mut emitted {
        event.id = id_of(event.place);
    }
    arrivals.compare(&emitted).add(report, SECTION, &alone_case(rate));
    setup.kafka.delete_topic(&topic).await;
}

fn alone_case(rate: u64) -> String {
    format!("Kafka alone, {rate}/s")
}

pub(super) fn case(rate: u64) -> String {
    format!("outbox, {rate}/s")
}

/// What arrives in a topic from now on.
pub(super) async fn arrivals(setup: &Setup<'_>, topic: &str) -> Arrivals<Consumer> {
    let config = at_once::config(&setup.kafka.addresses(Listener::Plain));
    let (sender, received) = mpsc::channel();
    let (begins, begun) = oneshot::channel();
    let (topic, is_ending) = (topic.to_owned(), Arc::new(AtomicBool::new(false)));
    let ending = Arc::clone(&is_ending);
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(consume(config, &topic, begins, &ending, &sender));
    });
    begun.await.expect("the consumer begins");
    Arrivals { received, _consumer: Consumer { is_ending, thread: Some(thread) } }
}

/// Reads a topic on a thread of its own, until it is dropped.
pub(super) struct Consumer {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) && !thread::panicking() {
            panic!("the consumer has failed");
        }
    }
}

async fn consume(
    config: ProduceConfig,
    topic: &str,
    begins: oneshot::Sender<()>,
    is_ending: &AtomicBool,
    sender: &Sender<(Uuid, Instant)>,
) {
    let mut reader = Reader::connect(config).await.unwrap_or_else(|e| panic!("cannot read: {e}"));
    reader.begin(topic, From::End).await.unwrap_or_else(|e| panic!("cannot read: {e}"));
    let _ = begins.send(());
    while !is_ending.load(Ordering::Acquire) {
        let records = reader.next(Duration::from_millis(100)).await.unwrap_or_else(|e| panic!("cannot read: {e}"));
        let at = Instant::now();
        for record in records {
            let id = record.headers.iter().find(|(name, _)| name == "id").and_then(|(_, value)| value.as_ref());
            let id = id.and_then(|id| std::str::from_utf8(id).ok()).map(|id| id.trim_matches('"'));
            let _ = sender.send((id.and_then(|id| id.parse().ok()).expect("a header with the id"), at));
        }
    }
}
