//! Promises of the decoder. Messages are written here by hand from the protocol's description, so that the two agree
//! by the book and not by sharing code.

use bytes::{BufMut, Bytes, BytesMut};
use proptest::{collection::vec, prelude::*};

use super::*;

#[derive(Clone, Debug)]
enum Value {
    Null,
    Unchanged,
    Text(Vec<u8>),
    Binary(Vec<u8>),
}

impl Value {
    fn write(&self, out: &mut BytesMut) {
        let (kind, bytes) = match self {
            Self::Null => return out.put_u8(b'n'),
            Self::Unchanged => return out.put_u8(b'u'),
            Self::Text(bytes) => (b't', bytes),
            Self::Binary(bytes) => (b'b', bytes),
        };
        out.put_u8(kind);
        out.put_u32(u32::try_from(bytes.len()).unwrap());
        out.put_slice(bytes);
    }

    fn column(&self) -> Column<'_> {
        match self {
            Self::Null => Column::Null,
            Self::Unchanged => Column::Unchanged,
            Self::Text(bytes) => Column::Text(bytes),
            Self::Binary(bytes) => Column::Binary(bytes),
        }
    }
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_slice(text.as_bytes());
    out.put_u8(0);
}

fn relation_message(oid: u32, namespace: &str, name: &str, columns: &[(&str, u32)]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(b'R');
    out.put_u32(oid);
    put_text(&mut out, namespace);
    put_text(&mut out, name);
    out.put_u8(b'd');
    out.put_u16(u16::try_from(columns.len()).unwrap());
    for (name, type_oid) in columns {
        out.put_u8(1);
        put_text(&mut out, name);
        out.put_u32(*type_oid);
        out.put_u32(u32::MAX); // no type modifier
    }
    out.freeze()
}

fn insert_message(oid: u32, values: &[Value]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(b'I');
    out.put_u32(oid);
    out.put_u8(b'N');
    out.put_u16(u16::try_from(values.len()).unwrap());
    for value in values {
        value.write(&mut out);
    }
    out.freeze()
}

fn logical_message(flags: u8, lsn: u64, prefix: &str, content: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(b'M');
    out.put_u8(flags);
    out.put_u64(lsn);
    put_text(&mut out, prefix);
    out.put_u32(u32::try_from(content.len()).unwrap());
    out.put_slice(content);
    out.freeze()
}

fn begin_message(final_lsn: u64, time: i64, xid: u32) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(b'B');
    out.put_u64(final_lsn);
    out.put_i64(time);
    out.put_u32(xid);
    out.freeze()
}

fn commit_message(commit_lsn: u64, end_lsn: u64) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(b"C\0");
    out.put_u64(commit_lsn);
    out.put_u64(end_lsn);
    out.put_i64(0);
    out.freeze()
}

/// A decoder that knows a table 7 with `columns` columns.
fn decoder(columns: usize) -> Decoder {
    let mut decoder = Decoder::new();
    let columns = vec![("c", 25); columns];
    decoder.decode(relation_message(7, "outbox", "events", &columns)).unwrap();
    decoder
}

fn problem(result: Result<Message, DecodeError>) -> Problem {
    result.expect_err("it should not decode").problem
}

#[test]
fn a_begin_tells_the_commit_to_come_and_the_unix_time_of_it() {
    // 2026-01-02T03:04:05.000006Z, counted from 2000-01-01
    let message = Decoder::new().decode(begin_message(0x16_B374_D848, 820_638_245_000_006, 771)).unwrap();
    let Message::Begin { final_lsn, commit_time_us, xid } = message else { panic!("{message:?}") };
    assert_eq!((final_lsn, commit_time_us, xid), (Lsn(0x16_B374_D848), 1_767_323_045_000_006, 771));
}

#[test]
fn a_commit_tells_the_end_that_may_be_acknowledged() {
    let message = Decoder::new().decode(commit_message(100, 148)).unwrap();
    let Message::Commit { commit_lsn, end_lsn } = message else { panic!("{message:?}") };
    assert_eq!((commit_lsn, end_lsn), (Lsn(100), Lsn(148)));
}

#[test]
fn a_row_of_a_table_never_described_is_refused() {
    assert_eq!(problem(Decoder::new().decode(insert_message(9, &[]))), Problem::UnknownRelation(9));
}

#[test]
fn a_row_with_more_or_fewer_columns_than_its_table_is_refused() {
    for found in [0, 1, 3] {
        let row = insert_message(7, &vec![Value::Null; found]);
        assert_eq!(problem(decoder(2).decode(row)), Problem::ColumnCount { expected: 2, found });
    }
}

#[test]
fn a_table_described_again_replaces_its_description() {
    let mut decoder = decoder(1);
    decoder.decode(relation_message(7, "outbox", "events", &[("a", 25), ("b", 25)])).unwrap();
    assert!(decoder.decode(insert_message(7, &[Value::Null, Value::Null])).is_ok());
}

#[test]
fn a_value_of_an_unknown_kind_is_refused() {
    let row = Bytes::from_static(b"I\0\0\0\x07N\0\x01x");
    assert_eq!(problem(decoder(1).decode(row)), Problem::UnknownColumn(b'x'));
}

#[test]
fn a_length_beyond_the_message_is_refused_and_reserves_nothing() {
    let row = Bytes::from_static(b"I\0\0\0\x07N\0\x01t\xff\xff\xff\xffabc");
    assert_eq!(problem(decoder(1).decode(row)), Problem::Truncated);
    let message = Bytes::from_static(b"M\x01\0\0\0\0\0\0\0\x01outbox\0\xff\xff\xff\xffabc");
    assert_eq!(problem(Decoder::new().decode(message)), Problem::Truncated);
}

#[test]
fn a_name_that_is_not_utf8_is_refused() {
    let relation = Bytes::from_static(b"R\0\0\0\x07\xff\0events\0d\0\0");
    assert_eq!(problem(Decoder::new().decode(relation)), Problem::NotUtf8);
}

#[test]
fn messages_of_other_kinds_are_skipped_whatever_they_hold() {
    for tag in b"OYUDTSEcApbKrPx" {
        let message = Decoder::new().decode(Bytes::from(vec![*tag, 1, 2, 3])).unwrap();
        assert!(matches!(message, Message::Other(other) if other == *tag), "{message:?}");
    }
}

#[test]
fn the_debug_form_shows_no_value_and_no_content() {
    let row = decoder(1).decode(insert_message(7, &[Value::Text(b"secret".to_vec())])).unwrap();
    assert_eq!(format!("{row:?}"), r#"Insert { relation: "events", tuple: [Text(6 bytes)] }"#);
    let message = Decoder::new().decode(logical_message(0, 5, "other", b"secret")).unwrap();
    assert!(!format!("{message:?}").contains("secret"));
}

#[test]
fn an_error_names_the_message_and_what_is_wrong() {
    let error = Decoder::new().decode(Bytes::from_static(b"B\0")).unwrap_err();
    assert_eq!(error.to_string(), "bad pgoutput message 'B': it ends too early");
}

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
