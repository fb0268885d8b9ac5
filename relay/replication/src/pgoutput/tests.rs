//! Promises of the decoder.

mod captured;
mod properties;
mod write;

use bytes::Bytes;

use self::write::{Value, begin_message, commit_message, insert_message, logical_message, relation_message};
use super::*;

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
