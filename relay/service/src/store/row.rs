//! A row of `outbox.events`, in PostgreSQL's binary format, as an [`Event`].
//!
//! The stream and a pass both bring rows in this format, so both use this reader.

#[cfg(test)]
mod tests;

use std::fmt;

use bytes::{Bytes, BytesMut};
use outbox_core::{Destination, Event, Text};
use pg_replication::pgoutput::POSTGRES_EPOCH_US;
use uuid::Uuid;

macro_rules! columns {
    ($($column:ident = $name:literal,)*) => {
        /// A column that the relay reads.
        #[derive(Clone, Copy, Debug)]
        enum Column { $($column,)* }

        impl Column {
            const ALL: &[Self] = &[$(Self::$column,)*];

            const fn name(self) -> &'static str {
                match self { $(Self::$column => $name,)* }
            }
        }
    };
}

columns! {
    Id = "id",
    Seq = "seq",
    Exchange = "exchange",
    Topic = "topic",
    EventType = "event_type",
    AggregateType = "aggregate_type",
    AggregateId = "aggregate_id",
    Payload = "payload",
    PayloadBytes = "payload_bytes",
    ContentType = "content_type",
    Headers = "headers",
    CorrelationId = "correlation_id",
    CreatedAt = "created_at",
    Attempts = "attempts",
    Replays = "replays",
    AvailableAt = "available_at",
    HoldsKey = "holds_key",
    LastError = "last_error",
    FirstAttemptedAt = "first_attempted_at",
    Status = "status",
}

/// The position of each column in a row, found by name, so that the table may gain columns in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout([usize; Self::WIDTH]);

/// Why a row cannot be read. The cause is a table that is not the extension's; an event that cannot be sent is no
/// error.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadRow {
    /// The table lacks this column.
    #[error("outbox.events has no column {0}")]
    MissingColumn(&'static str),
    /// The value is not in the binary format of the type that the extension gives the column.
    #[error("outbox.events.{0} is not of the type that this relay expects")]
    WrongType(&'static str),
    /// The column is null, although the extension declares it `NOT NULL`.
    #[error("outbox.events.{0} is null")]
    Null(&'static str),
}

impl Layout {
    /// How many columns the relay selects.
    pub const WIDTH: usize = Column::ALL.len();

    /// The columns that the relay selects, with commas between. Columns that users have added are not among them.
    pub fn columns() -> String {
        let quoted: Vec<String> = Column::ALL.iter().map(|column| format!("\"{}\"", column.name())).collect();
        quoted.join(", ")
    }

    /// Finds the columns by their names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str> + Clone) -> Result<Self, BadRow> {
        let mut places = [0; Self::WIDTH];
        for (place, column) in places.iter_mut().zip(Column::ALL) {
            let found = names.clone().into_iter().position(|name| name == column.name());
            *place = found.ok_or(BadRow::MissingColumn(column.name()))?;
        }
        Ok(Self(places))
    }
}

/// One row, borrowed from the buffer in which it was received.
pub struct Row<'a> {
    layout: &'a Layout,
    fields: &'a [Option<&'a [u8]>],
    committed_at_us: Option<i64>,
}

/// Shows the row's id, and none of the applications' data.
impl fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl outbox_core::Row for Row<'_> {
    fn id(&self) -> Result<Uuid, String> {
        Row::id(self).map_err(|error| error.to_string())
    }

    fn is_pending(&self) -> bool {
        self.field(Column::Status) == Some(b"PENDING")
    }

    fn is_deferred(&self) -> bool {
        self.field(Column::AvailableAt).is_some()
    }

    fn event(&self) -> Result<Event, String> {
        self.to_event().map_err(|error| error.to_string())
    }
}

impl<'a> Row<'a> {
    /// Reads `fields` by `layout`.
    pub fn new(layout: &'a Layout, fields: &'a [Option<&'a [u8]>]) -> Self {
        Self { layout, fields, committed_at_us: None }
    }

    /// Sets the commit time of the row's transaction, in microseconds since the Unix epoch.
    #[must_use]
    pub fn committed_at(self, us: Option<i64>) -> Self {
        Self { committed_at_us: us, ..self }
    }

    /// The primary key.
    pub fn id(&self) -> Result<Uuid, BadRow> {
        self.fixed(Column::Id).map(Uuid::from_bytes)
    }

    /// The row's position in the table's order.
    pub fn seq(&self) -> Result<i64, BadRow> {
        self.fixed(Column::Seq).map(i64::from_be_bytes)
    }

    /// Copies the row into one allocation of its own. If the row cannot be sent, the event's `body` has the reason.
    pub fn to_event(&self) -> Result<Event, BadRow> {
        let topic = self.field(Column::Topic);
        let payload = self.json(Column::Payload);
        let body = payload.or_else(|| self.field(Column::PayloadBytes));
        let headers = self.json(Column::Headers);
        let texts = [Column::Exchange, Column::Topic, Column::EventType, Column::AggregateType, Column::AggregateId];
        let texts = texts.into_iter().chain([Column::ContentType, Column::CorrelationId]);
        let texts: usize = texts.filter_map(|column| self.field(column)).map(<[u8]>::len).sum();
        let total = texts + headers.map_or(0, <[u8]>::len) + body.map_or(0, <[u8]>::len);
        let mut copy = Copy { row: self, buffer: BytesMut::with_capacity(total), defect: None };

        let default_type = if payload.is_some() { "application/json" } else { "application/octet-stream" };
        let mut event = Event {
            id: self.id()?,
            seq: self.seq()?,
            destination: Destination {
                exchange: copy.text(Column::Exchange),
                topic: copy.text(Column::Topic).unwrap_or(Text::from_static("")),
            },
            event_type: copy.text(Column::EventType),
            aggregate_type: copy.text(Column::AggregateType),
            aggregate_id: copy.text(Column::AggregateId),
            body: body.map(|body| copy.bytes(body)).ok_or_else(|| "the row has no payload".into()),
            content_type: copy.text(Column::ContentType).unwrap_or(Text::from_static(default_type)),
            headers: headers.map(|headers| copy.bytes(headers)),
            correlation_id: copy.text(Column::CorrelationId),
            created_at_us: self.unix_us(Column::CreatedAt)?,
            committed_at_us: self.committed_at_us,
            attempts: u32::try_from(i32::from_be_bytes(self.fixed(Column::Attempts)?)).unwrap_or(0),
            replays: u32::try_from(i32::from_be_bytes(self.fixed(Column::Replays)?)).unwrap_or(0),
            holds_key: self.fixed(Column::HoldsKey)? != [0],
            first_attempted_at_us: match self.field(Column::FirstAttemptedAt) {
                Some(_) => Some(self.unix_us(Column::FirstAttemptedAt)?),
                None => None,
            },
        };
        if topic.is_none() {
            // The database could not read the row (sql/relay/cut_page.sql), and last_error has the reason.
            let reason = self.field(Column::LastError).unwrap_or(b"the row has no topic");
            event.body = Err(String::from_utf8_lossy(reason).into());
        } else if let Some(column) = copy.defect {
            event.body = Err(format!("{} is not UTF-8", column.name()).into());
        }
        Ok(event)
    }

    fn field(&self, column: Column) -> Option<&'a [u8]> {
        let place = self.layout.0.get(column as usize)?;
        self.fields.get(*place).copied().flatten()
    }

    fn fixed<const SIZE: usize>(&self, column: Column) -> Result<[u8; SIZE], BadRow> {
        let bytes = self.field(column).ok_or(BadRow::Null(column.name()))?;
        bytes.try_into().map_err(|_| BadRow::WrongType(column.name()))
    }

    fn unix_us(&self, column: Column) -> Result<i64, BadRow> {
        Ok(i64::from_be_bytes(self.fixed(column)?).saturating_add(POSTGRES_EPOCH_US))
    }

    /// The text of a JSON column. The binary format of `json` is its text; that of `jsonb`, in WAL from before the
    /// upgrade to 0.3.0, begins with a version, always 1 (`jsonb_send` in PostgreSQL's `jsonb.c`), with which no JSON
    /// begins.
    fn json(&self, column: Column) -> Option<&'a [u8]> {
        self.field(column).map(|field| field.strip_prefix(&[1]).unwrap_or(field))
    }
}

/// Appends to one buffer and hands out slices of it.
struct Copy<'r, 'a> {
    row: &'r Row<'a>,
    buffer: BytesMut,
    /// The first text column that is not UTF-8.
    defect: Option<Column>,
}

impl Copy<'_, '_> {
    fn bytes(&mut self, bytes: &[u8]) -> Bytes {
        self.buffer.extend_from_slice(bytes);
        self.buffer.split().freeze()
    }

    fn text(&mut self, column: Column) -> Option<Text> {
        let bytes = self.row.field(column)?;
        let (text, is_text) = Text::lossy(self.bytes(bytes));
        if !is_text {
            self.defect.get_or_insert(column);
        }
        Some(text)
    }
}
