//! A row of `outbox.events`, in PostgreSQL's binary format, as an [`Event`]. Pure.
//!
//! The stream and a resync scan both bring rows in this format, so there is one reader for both.

use bytes::{Bytes, BytesMut};
use pg_replication::pgoutput::POSTGRES_EPOCH_US;
use uuid::Uuid;

use crate::event::{Event, Text};

/// The columns that the relay reads, in the order of [`Layout`]'s places.
const COLUMNS: [&str; 18] = [
    "id",
    "seq",
    "exchange",
    "topic",
    "event_type",
    "aggregate_type",
    "aggregate_id",
    "payload",
    "payload_bytes",
    "content_type",
    "headers",
    "correlation_id",
    "created_at",
    "attempts",
    "available_at",
    "holds_key",
    "last_error",
    "first_attempted_at",
];
const STATUS: &str = "status";

/// Where each column stands in a row: by name, so that the table may gain columns in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    places: [usize; COLUMNS.len()],
    status: usize,
}

/// Why a row cannot be read. It tells of a table that is not the extension's, not of a bad event.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadRow {
    /// The table has no such column.
    #[error("outbox.events has no column {0}")]
    MissingColumn(&'static str),
    /// The value is not in the binary format of the type that the extension gives the column.
    #[error("outbox.events.{0} is not of the type that this relay expects")]
    WrongType(&'static str),
    /// The column is null, and may not be.
    #[error("outbox.events.{0} is null")]
    Null(&'static str),
}

impl Layout {
    /// The columns to select from the table, with commas between: not what a user has added to it.
    pub fn columns() -> String {
        let quoted: Vec<String> = COLUMNS.iter().chain([&STATUS]).map(|name| format!("\"{name}\"")).collect();
        quoted.join(", ")
    }

    /// Finds the columns by their names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str> + Clone) -> Result<Self, BadRow> {
        let find = |name: &'static str| {
            names.clone().into_iter().position(|other| other == name).ok_or(BadRow::MissingColumn(name))
        };
        let mut places = [0; COLUMNS.len()];
        for (place, name) in places.iter_mut().zip(COLUMNS) {
            *place = find(name)?;
        }
        Ok(Self { places, status: find(STATUS)? })
    }
}

/// One row, borrowed from the wire.
#[derive(Debug)]
pub struct Row<'a> {
    layout: &'a Layout,
    fields: &'a [Option<&'a [u8]>],
}

impl<'a> Row<'a> {
    /// Reads `fields` by `layout`.
    pub fn new(layout: &'a Layout, fields: &'a [Option<&'a [u8]>]) -> Self {
        Self { layout, fields }
    }

    /// Primary key.
    pub fn id(&self) -> Result<Uuid, BadRow> {
        self.fixed::<0, 16>().map(Uuid::from_bytes)
    }

    /// Place in the table's own order.
    pub fn seq(&self) -> Result<i64, BadRow> {
        self.fixed::<1, 8>().map(i64::from_be_bytes)
    }

    /// Whether the row is owed to the broker. A restored dump inserts finished rows, too.
    pub fn is_pending(&self) -> bool {
        self.fields.get(self.layout.status).is_some_and(|status| *status == Some(b"PENDING"))
    }

    /// Whether the event asks to be sent at a later time.
    pub fn is_deferred(&self) -> bool {
        self.field::<14>().is_some()
    }

    /// Copies the row into one allocation of its own. What cannot be sent of it is its event's own failure, not an error.
    pub fn to_event(&self) -> Result<Event, BadRow> {
        let exchange = self.field::<2>();
        let topic = self.field::<3>();
        let event_type = self.field::<4>();
        let aggregate_type = self.field::<5>();
        let aggregate_id = self.field::<6>();
        let payload = self.field::<7>().map(|payload| json_text(payload, "payload")).transpose()?;
        let is_json = payload.is_some();
        let body = payload.or_else(|| self.field::<8>());
        let content_type = self.field::<9>();
        let headers = self.field::<10>().map(|headers| json_text(headers, "headers")).transpose()?;
        let correlation_id = self.field::<11>();
        let texts = [exchange, topic, event_type, aggregate_type, aggregate_id, content_type, headers, correlation_id];
        let total = texts.into_iter().flatten().map(<[u8]>::len).sum::<usize>() + body.map_or(0, <[u8]>::len);
        let mut copy = Copy { buffer: BytesMut::with_capacity(total), defect: None };

        let mut event = Event {
            id: self.id()?,
            seq: self.seq()?,
            exchange: copy.optional_text(exchange, "exchange"),
            topic: copy.text(topic.unwrap_or_default(), "topic"),
            event_type: copy.optional_text(event_type, "event_type"),
            aggregate_type: copy.optional_text(aggregate_type, "aggregate_type"),
            aggregate_id: copy.optional_text(aggregate_id, "aggregate_id"),
            body: body.map(|body| copy.bytes(body)).ok_or_else(|| "the row has no payload".into()),
            content_type: match (content_type, is_json) {
                (Some(content_type), _) => copy.text(content_type, "content_type"),
                (None, true) => Text::from_static("application/json"),
                (None, false) => Text::from_static("application/octet-stream"),
            },
            headers: headers.map(|headers| copy.bytes(headers)),
            correlation_id: copy.optional_text(correlation_id, "correlation_id"),
            created_at_us: i64::from_be_bytes(self.fixed::<12, 8>()?).saturating_add(POSTGRES_EPOCH_US),
            attempts: u32::try_from(i32::from_be_bytes(self.fixed::<13, 4>()?)).unwrap_or(0),
            holds_key: self.fixed::<15, 1>()? != [0],
            first_attempted_at_us: match self.field::<17>() {
                Some(_) => Some(i64::from_be_bytes(self.fixed::<17, 8>()?).saturating_add(POSTGRES_EPOCH_US)),
                None => None,
            },
        };
        if topic.is_none() {
            // The database could not read the row (sql/page.sql), and says why.
            let reason = self.field::<16>().unwrap_or(b"the row has no topic");
            event.body = Err(String::from_utf8_lossy(reason).into());
        } else if let Some(name) = copy.defect {
            event.body = Err(format!("{name} is not UTF-8").into());
        }
        Ok(event)
    }

    fn field<const COLUMN: usize>(&self) -> Option<&'a [u8]> {
        let place = self.layout.places.get(COLUMN)?;
        self.fields.get(*place).copied().flatten()
    }

    fn fixed<const COLUMN: usize, const SIZE: usize>(&self) -> Result<[u8; SIZE], BadRow> {
        let name = COLUMNS.get(COLUMN).copied().unwrap_or_default();
        let bytes = self.field::<COLUMN>().ok_or(BadRow::Null(name))?;
        bytes.try_into().map_err(|_| BadRow::WrongType(name))
    }
}

/// The binary format of `jsonb` is a version number, always 1, and then the text (`jsonb_send` in PostgreSQL's
/// `jsonb.c`).
fn json_text<'a>(field: &'a [u8], name: &'static str) -> Result<&'a [u8], BadRow> {
    field.strip_prefix(&[1]).ok_or(BadRow::WrongType(name))
}

/// Appends to one buffer and hands out slices of it.
struct Copy {
    buffer: BytesMut,
    /// A text that is none.
    defect: Option<&'static str>,
}

impl Copy {
    fn bytes(&mut self, bytes: &[u8]) -> Bytes {
        self.buffer.extend_from_slice(bytes);
        self.buffer.split().freeze()
    }

    fn text(&mut self, bytes: &[u8], name: &'static str) -> Text {
        let (text, is_text) = Text::lossy(self.bytes(bytes));
        if !is_text {
            self.defect.get_or_insert(name);
        }
        text
    }

    fn optional_text(&mut self, bytes: Option<&[u8]>, name: &'static str) -> Option<Text> {
        bytes.map(|bytes| self.text(bytes, name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 19] = [
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
    ];

    fn fields() -> [Option<&'static [u8]>; 19] {
        let mut fields = [None; 19];
        fields[0] = Some([7; 16].as_slice());
        fields[1] = Some([0, 0, 0, 0, 0, 0, 0, 42].as_slice());
        fields[2] = Some(b"orders.created".as_slice());
        fields[7] = Some(b"\x01{\"a\": 1}".as_slice());
        fields[12] = Some(b"PENDING".as_slice());
        fields[13] = Some([0, 0, 0, 3].as_slice());
        fields[15] = Some([0; 8].as_slice());
        fields[16] = Some([0].as_slice());
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
        assert_eq!((event.seq, event.attempts), (42, 3));
        assert_eq!(event.topic.as_str(), "orders.created");
        assert_eq!(event.body.as_deref(), Ok(&b"{\"a\": 1}"[..]));
        assert_eq!(event.content_type.as_str(), "application/json");
        assert_eq!(event.created_at_us, POSTGRES_EPOCH_US);
        assert!(event.exchange.is_none() && event.headers.is_none());
    }

    #[test]
    fn bytes_without_a_content_type_are_an_octet_stream() {
        let layout = Layout::new(NAMES).unwrap();
        let mut fields = fields();
        fields[7] = None;
        fields[8] = Some(&[0, 255]);
        let event = Row::new(&layout, &fields).to_event().unwrap();
        assert_eq!(
            (event.body.as_deref(), event.content_type.as_str()),
            (Ok(&[0, 255][..]), "application/octet-stream")
        );
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
        type Spoil = fn(&mut [Option<&'static [u8]>; 19]);
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
}
