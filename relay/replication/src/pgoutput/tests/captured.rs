//! Streams captured from PostgreSQL 15; the fuzzer starts from them, too.

use bytes::{Buf, Bytes};

use super::{Decoder, Message};

/// The messages of a captured stream: each behind its length in two bytes, as the fuzzer takes them.
fn captured(mut stream: Bytes) -> Vec<Message> {
    let mut decoder = Decoder::new();
    let mut messages = Vec::new();
    while stream.has_remaining() {
        let length = stream.get_u16();
        messages.push(decoder.decode(stream.split_to(length.into())).unwrap());
    }
    messages
}

#[test]
fn what_a_real_server_sent_for_events_is_read() {
    let messages = captured(Bytes::from_static(include_bytes!("../../../fuzz/seeds/pgoutput/events")));
    // 'Y' describes the type of `status`.
    let [Message::Begin { .. }, Message::Other(b'Y'), Message::Relation(relation), rows @ .., Message::Commit { .. }] =
        &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!((relation.namespace.as_str(), relation.name.as_str()), ("outbox", "events"));
    let read = |name: &str| {
        let place = relation.columns.iter().position(|column| column.name == name).unwrap();
        let value = |row: &Message| {
            let Message::Insert { tuple, .. } = row else { panic!("{row:?}") };
            tuple.columns().nth(place).unwrap().bytes().map(Bytes::copy_from_slice)
        };
        rows.iter().map(value).collect::<Vec<_>>()
    };
    let text = |text: &'static [u8]| Some(Bytes::from_static(text));
    assert_eq!(read("topic"), [text(b"orders.created"), text(b"orders.created"), text(b"a")]);
    assert_eq!(read("payload"), [text(b"\x01{\"id\": 1}"), None, None]); // jsonb: its version, then the text
    assert_eq!(read("payload_bytes"), [None, None, text(b"\x00\xff")]);
    assert_eq!(read("status"), [text(b"PENDING"), text(b"PENDING"), text(b"PENDING")]);
    assert_eq!(
        read("seq"),
        [text(&[0, 0, 0, 0, 0, 0, 0, 1]), text(&[0, 0, 0, 0, 0, 0, 0, 2]), text(&[0, 0, 0, 0, 0, 0, 0, 3])]
    );
}

#[test]
fn what_a_real_server_sent_besides_is_read_or_skipped() {
    let messages = captured(Bytes::from_static(include_bytes!("../../../fuzz/seeds/pgoutput/messages")));
    let [
        Message::Message { prefix: elsewhere, .. },
        Message::Begin { .. },
        Message::Message { prefix, .. },
        Message::Commit { .. },
    ] = &messages[..]
    else {
        panic!("{messages:?}")
    };
    assert_eq!((&elsewhere[..], &prefix[..]), (&b"elsewhere"[..], &b"outbox"[..]));
    // A table without columns, types of every sort, updates, deletes, a truncate.
    let messages = captured(Bytes::from_static(include_bytes!("../../../fuzz/seeds/pgoutput/other")));
    let skipped =
        messages.iter().filter_map(|message| if let Message::Other(tag) = message { Some(*tag) } else { None });
    assert_eq!(skipped.collect::<std::collections::BTreeSet<u8>>(), b"DTUY".iter().copied().collect());
    let widths =
        messages.iter().filter_map(|m| if let Message::Insert { tuple, .. } = m { Some(tuple.len()) } else { None });
    assert_eq!(widths.collect::<Vec<_>>(), [0, 5]);
}
