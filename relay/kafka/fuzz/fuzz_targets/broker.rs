//! Plays brokers that answer anything.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| kafka_producer::fuzz::broker(data));
