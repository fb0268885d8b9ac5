//! librdkafka by its Rust wrapper, in its cheapest form: verdicts come by a callback on the one thread that publishes.
//!
//! Without the wrapper's `tokio` feature and its futures, which would cost more.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext,
    config::FromClientConfigAndContext,
    message::{Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext},
};

use crate::{IN_FLIGHT, Work, sample};

/// Counts verdicts.
#[derive(Default)]
struct Verdicts {
    all: AtomicU64,
    taken: AtomicU64,
}

impl ClientContext for Verdicts {}

impl ProducerContext for Verdicts {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, _number: usize) {
        self.all.fetch_add(1, Ordering::Relaxed);
        self.taken.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
    }
}

/// Returns how many records were taken.
pub(crate) fn publish(work: &Work) -> u64 {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &work.brokers).set("enable.idempotence", "true").set("acks", "all");
    // By default a key's partition is another than that of Java's clients.
    config.set("partitioner", "murmur2_random");
    let producer: BaseProducer<Verdicts> =
        BaseProducer::from_config_and_context(&config, Verdicts::default()).expect("a producer");
    let verdicts = || producer.context().all.load(Ordering::Relaxed);
    for number in 0..work.records {
        while number - verdicts() >= IN_FLIGHT {
            producer.poll(Duration::from_millis(100));
        }
        let mut headers = Some(OwnedHeaders::new_with_capacity(6));
        sample::each_header(number, |key, value| {
            headers = headers.take().map(|headers| headers.insert(Header { key, value: Some(value) }));
        });
        let key = sample::key(number);
        let record = BaseRecord::with_opaque_to(&work.topic, number as usize).key(&key).payload(&work.body);
        let record = record.headers(headers.unwrap_or_default());
        producer.send(record).map_err(|(error, _)| error).expect("room for a record");
    }
    while verdicts() < work.records {
        producer.poll(Duration::from_millis(100));
    }
    producer.context().taken.load(Ordering::Relaxed)
}
