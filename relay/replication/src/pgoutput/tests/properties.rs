//! What holds for every input.

use bytes::Bytes;
use proptest::{collection::vec, prelude::*};

use super::{
    Decoder, Lsn, Message, Problem, decoder, problem,
    write::{Value, begin_message, commit_message, insert_message, logical_message, relation_message},
};

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(Value::Unchanged),
        vec(any::<u8>(), 0..40).prop_map(Value::Text),
        vec(any::<u8>(), 0..40).prop_map(Value::Binary),
    ]
}

/// Well-formed messages of every kind, for tables 7 (two columns) and 8.
fn message() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        (any::<u64>(), any::<i64>(), any::<u32>()).prop_map(|(lsn, time, xid)| begin_message(lsn, time, xid)),
        (any::<u64>(), any::<u64>()).prop_map(|(commit, end)| commit_message(commit, end)),
        Just(relation_message(8, "", "other", &[("a", 1), ("b", 2), ("c", 3)])),
        vec(value(), 2).prop_map(|values| insert_message(7, &values)),
        vec(value(), 3).prop_map(|values| insert_message(8, &values)),
        (any::<u8>(), any::<u64>(), "[a-z]{0,9}", vec(any::<u8>(), 0..40))
            .prop_map(|(flags, lsn, prefix, content)| logical_message(flags, lsn, &prefix, &content)),
    ]
}

proptest! {
    #[test]
    fn a_row_reads_back_as_it_was_written(values in vec(value(), 0..40)) {
        let message = decoder(values.len()).decode(insert_message(7, &values)).unwrap();
        let Message::Insert { relation, tuple } = message else { panic!("{message:?}") };
        prop_assert_eq!(&relation.name, "events");
        prop_assert_eq!(tuple.columns().len(), values.len());
        prop_assert_eq!(tuple.columns().collect::<Vec<_>>(), values.iter().map(Value::column).collect::<Vec<_>>());
    }

    #[test]
    fn a_table_reads_back_as_it_was_described(
        oid in any::<u32>(),
        namespace in "[^\0]{0,20}",
        name in "[^\0]{0,20}",
        columns in vec(("[^\0]{0,20}", any::<u32>()), 0..30),
    ) {
        let written: Vec<(&str, u32)> = columns.iter().map(|(name, oid)| (name.as_str(), *oid)).collect();
        let message = Decoder::new().decode(relation_message(oid, &namespace, &name, &written)).unwrap();
        let Message::Relation(relation) = message else { panic!("{message:?}") };
        prop_assert_eq!((relation.oid, &relation.namespace, &relation.name), (oid, &namespace, &name));
        let read: Vec<(&str, u32)> = relation.columns.iter().map(|c| (c.name.as_str(), c.type_oid)).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn a_logical_message_reads_back_as_it_was_written(
        flags in any::<u8>(), lsn in any::<u64>(), prefix in "[^\0]{0,20}", content in vec(any::<u8>(), 0..100),
    ) {
        let message = Decoder::new().decode(logical_message(flags, lsn, &prefix, &content)).unwrap();
        let Message::Message { transactional, lsn: read, prefix: p, content: c } = message else { panic!("{message:?}") };
        prop_assert_eq!((transactional, read, &p[..], &c[..]), (flags & 1 == 1, Lsn(lsn), prefix.as_bytes(), &content[..]));
    }

    #[test]
    fn a_message_cut_short_or_made_longer_is_refused(message in message(), cut in any::<prop::sample::Index>()) {
        let mut decoder = decoder(2);
        decoder.decode(relation_message(8, "", "other", &[("a", 1), ("b", 2), ("c", 3)])).unwrap();
        prop_assert!(decoder.decode(message.slice(..cut.index(message.len()))).is_err());
        let longer = Bytes::from([&message[..], b"\0"].concat());
        prop_assert_eq!(problem(decoder.decode(longer)), Problem::TrailingBytes(1));
        prop_assert!(decoder.decode(message).is_ok());
    }

    #[test]
    fn no_input_makes_it_panic(inputs in vec(prop_oneof![vec(any::<u8>(), 0..200).prop_map(Bytes::from), message()], 1..8)) {
        let mut decoder = decoder(2);
        for input in inputs {
            if let Ok(Message::Insert { relation, tuple }) = decoder.decode(input) {
                prop_assert_eq!(tuple.columns().count(), relation.columns.len());
            }
        }
    }

    #[test]
    fn a_damaged_byte_makes_it_panic_neither(
        message in message(), place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut damaged = message.to_vec();
        damaged[place.index(message.len())] = byte;
        let _ = decoder(2).decode(damaged.into());
    }
}
