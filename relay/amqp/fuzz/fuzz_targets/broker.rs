//! Plays a broker that says anything, from the handshake to the last confirm.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| amqp_publisher::fuzz::broker(data));
