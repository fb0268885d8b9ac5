//! What a scan has found so far: rows as events, as many as memory has room for; and how many to ask for next.

use std::{collections::HashSet, sync::Arc};

use outbox_core::{Event, KeyName, Scan, Text};
use tokio_postgres::types::{FromSql, Type};

use super::{Layout, Row, StoreError};

/// Rows that one query of a scan brings at most.
pub(super) const CHUNK_ROWS: i32 = 500;
/// Stored bytes that one query of a scan brings at most, but for a single larger row: what a scan needs of memory
/// beside the events that it keeps.
pub(super) const CHUNK_BYTES: i64 = 2 << 20;

/// Bytes of an average event below which a scan that has met large ones tries chunks again whose bytes the server does not count
/// (`sql/relay/owed.sql`).
pub(super) const LARGE: usize = 16 * 1024;

/// How a scan reads rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    /// In one query, at most.
    pub(super) rows: i32,
    /// Each row is tried before it is read.
    pub(super) row_by_row: bool,
}

impl Chunks {
    pub(super) const ROW_BY_ROW: Self = Self { rows: 1, row_by_row: true };
}

pub(super) struct Found<'s> {
    scan: &'s Scan,
    left_out: HashSet<(Option<&'s [u8]>, &'s [u8])>,
    pub(super) events: Vec<Arc<Event>>,
    pub(super) bytes: usize,
    /// A limit was reached before the rows ended.
    pub(super) cut: bool,
}

impl<'s> Found<'s> {
    pub(super) fn new(scan: &'s Scan) -> Self {
        let name = |key: &'s KeyName| (key.aggregate_type.as_ref().map(String::as_bytes), key.aggregate_id.as_bytes());
        let left_out = scan.left_out.iter().map(name).collect();
        Self { scan, left_out, events: Vec::new(), bytes: 0, cut: false }
    }

    pub(super) fn is_at_limit(&self) -> bool {
        self.events.len() >= self.scan.max_rows || self.bytes >= self.scan.max_bytes
    }

    /// Rows to ask for next: a chunk's, or what the limits leave. What comes beyond was fetched and printed for nothing: with 10 kB a
    /// row a quarter of a page, which cost PostgreSQL as much of an event's CPU.
    pub(super) fn may_take(&self, chunks: Chunks) -> i32 {
        if !self.scan.known.is_empty() {
            return chunks.rows; // how many of them come first is not known
        }
        let chunk_bytes = usize::try_from(CHUNK_BYTES).unwrap_or(usize::MAX);
        let average = self.bytes.checked_div(self.events.len());
        let average = average.unwrap_or(chunk_bytes / usize::try_from(chunks.rows).unwrap_or(1).max(1)).max(1);
        let by_bytes = self.scan.max_bytes.saturating_sub(self.bytes) / average + 1;
        let by_rows = self.scan.max_rows.saturating_sub(self.events.len()).max(1);
        i32::try_from(by_bytes.min(by_rows)).unwrap_or(i32::MAX).min(chunks.rows)
    }

    /// Takes a row's event, unless it is in memory or left out. Returns the row's `seq`; `None`: a limit is reached.
    pub(super) fn take(&mut self, layout: &Layout, row: &tokio_postgres::Row) -> Result<Option<i64>, StoreError> {
        let fields: Vec<Option<&[u8]>> = (0..row.len())
            .map(|place| Ok(row.try_get::<_, Option<Raw<'_>>>(place)?.map(|Raw(bytes)| bytes)))
            .collect::<Result<_, tokio_postgres::Error>>()?;
        let row = Row::new(layout, &fields);
        if !self.scan.known.contains(&row.id()?) {
            if self.is_at_limit() {
                self.cut = true;
                return Ok(None);
            }
            let event = row.to_event()?;
            let key = event
                .aggregate_id
                .as_ref()
                .map(|id| (event.aggregate_type.as_ref().map(Text::as_bytes), id.as_bytes()));
            if event.holds_key || !key.is_some_and(|key| self.left_out.contains(&key)) {
                self.bytes += event.memory();
                self.events.push(Arc::new(event));
            }
        }
        Ok(Some(row.seq()?))
    }
}

/// A value as it came from the wire.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
