//! krafka, used well: records are handed over while earlier ones are in flight, and a verdict is awaited only for room.

use std::collections::VecDeque;

use bytes::Bytes;
use krafka::{
    Kafka, Record,
    producer::{Acks, DeliveryHandle},
};

use crate::{IN_FLIGHT, Work, sample};

/// Returns how many records were taken.
pub(crate) async fn publish(work: &Work) -> u64 {
    let kafka = Kafka::builder(work.brokers.as_str()).connect().await.expect("Kafka answers");
    let producer = kafka.producer().acks(Acks::All).idempotent(true).build().await.expect("a producer");
    let body = Bytes::from(work.body.clone());
    let (mut in_flight, mut taken) = (VecDeque::<DeliveryHandle>::new(), 0);
    for number in 0..work.records {
        if in_flight.len() as u64 >= IN_FLIGHT {
            let oldest = in_flight.pop_front().expect("something is in flight");
            taken += u64::from(oldest.await.is_ok());
        }
        let mut record = Some(Record::new(work.topic.as_str(), body.clone()).key(sample::key(number)));
        sample::each_header(number, |name, value| {
            record = record.take().map(|record| record.header(name, value.to_vec()));
        });
        let record = record.expect("a record with its headers");
        in_flight.push_back(producer.enqueue(record).await.expect("room for a record"));
    }
    for oldest in in_flight {
        taken += u64::from(oldest.await.is_ok());
    }
    producer.close().await.expect("the producer closes");
    taken
}
