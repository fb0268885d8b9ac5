//! Records as the relay sends them, for an event with a type and a key.

use std::{fmt::Write, sync::Arc};

use kafka_producer::{Headers, Outgoing};
use uuid::Uuid;

/// Version 7, variant 2; the last twelve digits are the record's number.
const FIRST_ID: u128 = 0x019a_0000_0000_7000_8000_0000_0000_0000;
/// Number of different keys.
const KEYS: u64 = 100_000;

/// One record.
pub(crate) struct Sample {
    number: u64,
    topic: Arc<str>,
    key: String,
    body: Arc<[u8]>,
}

impl Sample {
    pub(crate) fn new(number: u64, topic: &Arc<str>, body: &Arc<[u8]>) -> Self {
        Self { number, topic: Arc::clone(topic), key: key(number), body: Arc::clone(body) }
    }
}

pub(crate) fn key(number: u64) -> String {
    (number % KEYS).to_string()
}

/// Every header with its value.
pub(crate) fn each_header(number: u64, mut put: impl FnMut(&str, &[u8])) {
    let mut text = String::with_capacity(40);
    let mut put_shown = |name, value: &dyn std::fmt::Display| {
        text.clear();
        write!(text, "{value}").expect("text can be written");
        put(name, text.as_bytes());
    };
    put_shown("id", &Uuid::from_u128(FIRST_ID | u128::from(number)));
    put_shown("type", &"OrderMoved");
    put_shown("content-type", &"application/json");
    put_shown("aggregate_type", &"order");
    put_shown("time", &1_800_000_000_000_000_u64);
    put_shown("x-outbox-seq", &number);
}

impl Outgoing for Sample {
    type Mark = ();

    fn id(&self) -> Uuid {
        Uuid::from_u128(FIRST_ID | u128::from(self.number))
    }

    fn topic(&self) -> &str {
        &self.topic
    }

    fn key(&self) -> Option<&[u8]> {
        Some(self.key.as_bytes())
    }

    fn value(&self) -> Result<Option<&[u8]>, &str> {
        Ok(Some(&self.body))
    }

    fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), String> {
        each_header(self.number, |name, value| headers.put(name, value));
        Ok(())
    }
}
