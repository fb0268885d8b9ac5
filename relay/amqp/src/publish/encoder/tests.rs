use bytes::Buf;
use uuid::Uuid;

use super::*;
use crate::{
    protocol::frame::{Content, next_frame},
    publish::message::{Example, example},
};

fn encoder() -> Encoder {
    Encoder::new(1, "outbox".to_owned(), "app".to_owned(), 4096)
}

#[test]
fn a_body_is_cut_into_frames_that_the_broker_takes() {
    for size in [0, 1, 4088, 4089, 3 * 4088, 10_000] {
        let message = Example { body: Ok(vec![7; size].into()), ..example(1) };
        let (mut encoder, mut out) = (encoder(), Output::default());
        encoder.begin(&message, out.buffer()).unwrap();
        while encoder.is_inside_message() {
            encoder.put_body(&mut out);
        }
        let mut out = BytesMut::from(out.copy_to_bytes(out.remaining()));
        let mut sizes = 0;
        while let Some(frame) = next_frame(&mut out, 4096).unwrap() {
            match frame.content {
                Content::Method(_) => {}
                Content::Header { body, message_id } => {
                    assert_eq!((body, message_id), (size as u64, Some(Uuid::from_u128(1))));
                }
                Content::Body(length) => sizes += length,
                Content::Heartbeat => panic!("no heartbeat was written"),
            }
        }
        assert_eq!(sizes, size as u64);
        assert!(out.is_empty());
    }
}

#[test]
fn a_message_that_does_not_fit_is_refused_and_leaves_no_trace() {
    let spoil: [fn(&mut Example); 6] = [
        |message| message.body = Err("no"),
        |message| message.routing_key = "x".repeat(256),
        |message| message.exchange = Some("x".repeat(256)),
        |message| message.kind = Some("x".repeat(256)),
        |message| message.headers = Some("[]".to_owned()),
        |message| message.headers = Some(format!(r#"{{"a":"{}"}}"#, "x".repeat(4096))),
    ];
    for (number, spoil) in spoil.into_iter().enumerate() {
        let mut message = example(1);
        spoil(&mut message);
        let (mut encoder, mut out) = (encoder(), BytesMut::from("before"));
        let refused = encoder.begin(&message, &mut out).unwrap_err();
        assert_eq!(refused.code, if number < 5 { SYNTAX_ERROR } else { CONTENT_TOO_LARGE }, "{refused:?}");
        assert_eq!(out, "before");
        assert!(!encoder.is_inside_message());
    }
}

#[test]
fn every_property_stands_behind_its_flag_in_the_protocols_order() {
    struct All(Bytes);
    impl Outgoing for All {
        fn id(&self) -> Uuid {
            Uuid::nil()
        }
        fn message(&self) -> Result<Message<'_>, &str> {
            let properties = crate::Properties {
                content_type: Some(b"a"),
                content_encoding: Some(b"b"),
                transient: true,
                priority: Some(7),
                correlation_id: Some(b"c"),
                reply_to: Some(b"d"),
                expiration: Some(b"e"),
                timestamp: Some(9),
                kind: Some(b"f"),
                user_id: Some(b"g"),
            };
            Ok(Message { exchange: None, routing_key: b"", properties, body: &self.0 })
        }
    }
    let (mut encoder, mut out) = (encoder(), BytesMut::new());
    encoder.begin(&All(Bytes::new()), &mut out).unwrap();
    let flags = b"\xFF\xF8\x01a\x01b\0\0\0\0\x01\x07\x01c\x01d\x01e\x24";
    let place =
        out.windows(flags.len()).position(|bytes| bytes == flags).expect("the flags and what stands before the id");
    let behind = &out[place + flags.len() + 36..];
    assert_eq!(behind, b"\0\0\0\0\0\0\0\x09\x01f\x01g\x03app\xCE");
}
