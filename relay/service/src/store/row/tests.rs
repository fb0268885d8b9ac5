use outbox_core::Row as _;
use proptest::prelude::*;

use super::*;

const NAMES: [&str; 20] = [
    "id",
    "seq",
    "topic",
    "exchange",
    "event_type",
    "aggregate_type",
    "aggregate_id",
    "payload",
    "payload_bytes",
    "content_type",
    "headers",
    "correlation_id",
    "status",
    "attempts",
    "available_at",
    "created_at",
    "holds_key",
    "last_error",
    "first_attempted_at",
    "replays",
];

fn fields() -> [Option<&'static [u8]>; 20] {
    let mut fields = [None; 20];
    fields[0] = Some([7; 16].as_slice());
    fields[1] = Some([0, 0, 0, 0, 0, 0, 0, 42].as_slice());
    fields[2] = Some(b"orders.created".as_slice());
    fields[7] = Some(b"{\"a\": 1}".as_slice());
    fields[12] = Some(b"PENDING".as_slice());
    fields[13] = Some([0, 0, 0, 3].as_slice());
    fields[15] = Some([0; 8].as_slice());
    fields[16] = Some([0].as_slice());
    fields[19] = Some([0, 0, 0, 2].as_slice());
    fields
}

#[test]
fn a_row_becomes_the_event_that_was_emitted() {
    let layout = Layout::new(NAMES).unwrap();
    let fields = fields();
    let row = Row::new(&layout, &fields);
    assert!(row.is_pending() && !row.is_deferred());
    let event = row.to_event().unwrap();
    assert_eq!(event.id, Uuid::from_bytes([7; 16]));
    assert_eq!((event.seq, event.attempts, event.replays), (42, 3, 2));
    assert_eq!(event.destination.topic.as_str(), "orders.created");
    assert_eq!(event.body.as_deref(), Ok(&b"{\"a\": 1}"[..]));
    assert_eq!(event.content_type.as_str(), "application/json");
    assert_eq!(event.created_at_us, POSTGRES_EPOCH_US);
    assert!(event.destination.exchange.is_none() && event.headers.is_none());
}

#[test]
fn a_row_from_before_the_upgrade_has_the_same_body() {
    let layout = Layout::new(NAMES).unwrap();
    let mut fields = fields();
    fields[7] = Some(b"\x01{\"a\": 1}");
    let event = Row::new(&layout, &fields).to_event().unwrap();
    assert_eq!(event.body.as_deref(), Ok(&b"{\"a\": 1}"[..]));
}

#[test]
fn bytes_without_a_content_type_are_an_octet_stream() {
    let layout = Layout::new(NAMES).unwrap();
    let mut fields = fields();
    fields[7] = None;
    fields[8] = Some(&[0, 255]);
    let event = Row::new(&layout, &fields).to_event().unwrap();
    assert_eq!((event.body.as_deref(), event.content_type.as_str()), (Ok(&[0, 255][..]), "application/octet-stream"));
}

#[test]
fn a_table_of_another_shape_is_named() {
    assert_eq!(Layout::new(["id"]).unwrap_err(), BadRow::MissingColumn("seq"));
    let layout = Layout::new(NAMES).unwrap();
    let mut fields = fields();
    fields[0] = Some(b"short");
    assert_eq!(Row::new(&layout, &fields).to_event().unwrap_err(), BadRow::WrongType("id"));
    fields[0] = None;
    assert_eq!(Row::new(&layout, &fields).to_event().unwrap_err(), BadRow::Null("id"));
}

#[test]
fn a_row_that_cannot_be_sent_says_why_and_keeps_its_name_and_key() {
    let layout = Layout::new(NAMES).unwrap();
    type Spoil = fn(&mut [Option<&'static [u8]>; 20]);
    let spoil: [(Spoil, &str); 4] = [
        (|fields| fields[7] = None, "the row has no payload"),
        (|fields| fields[2] = Some(b"a\xff"), "topic is not UTF-8"),
        (|fields| fields[3] = Some(b"\xff"), "exchange is not UTF-8"),
        (|fields| (fields[2], fields[17]) = (None, Some(b"damaged".as_slice())), "damaged"),
    ];
    for (spoil, reason) in spoil {
        let mut fields = fields();
        fields[6] = Some(b"key");
        spoil(&mut fields);
        let event = Row::new(&layout, &fields).to_event().unwrap();
        assert_eq!(event.body.unwrap_err().as_ref(), reason);
        assert_eq!((event.id, event.aggregate_id.unwrap().as_str()), (Uuid::from_bytes([7; 16]), "key"));
    }
}

proptest! {
    #[test]
    fn no_row_makes_the_reader_panic(
        fields in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..20)), 0..20),
    ) {
        let layout = Layout::new(NAMES).unwrap();
        let fields: Vec<Option<&[u8]>> = fields.iter().map(Option::as_deref).collect();
        let row = Row::new(&layout, &fields);
        let _ = (row.id(), row.is_pending(), row.is_deferred(), row.to_event());
    }
}
