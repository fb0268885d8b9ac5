//! Plays a server that says anything, from the login to the stream.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| pg_replication::fuzz::backend(data));
