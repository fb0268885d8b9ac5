//! Feeds streams of arbitrary messages to the `pgoutput` decoder.
#![no_main]

use bytes::{Buf, Bytes};
use libfuzzer_sys::fuzz_target;
use pg_replication::pgoutput::{Column, Decoder, Message};

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new();
    let mut rest = Bytes::copy_from_slice(data);
    while let Ok(length) = rest.try_get_u16() {
        let message = rest.split_to(rest.len().min(length.into()));
        let length = message.len();
        let Ok(decoded) = decoder.decode(message) else { continue };
        let printed = format!("{decoded:?}");
        assert!(!printed.is_empty());
        if let Message::Insert { relation, tuple } = decoded {
            assert_eq!(tuple.columns().count(), relation.columns.len());
            let values: usize = tuple.columns().filter_map(Column::bytes).map(<[u8]>::len).sum();
            assert!(values <= length, "values from nowhere");
        }
    }
});
