//! The events that a scan has found so far, up to its limits, and the number of rows to ask for next.

use std::{collections::HashSet, sync::Arc};

use outbox_core::{Event, KeyName, Scan, Text};
use tokio_postgres::types::{FromSql, Type};

use super::{Layout, Row, StoreError};

/// Most rows that one query of a scan returns.
pub(super) const QUERY_ROWS: i32 = 500;
/// Most stored bytes that one query of a scan returns, except for a single larger row. A scan needs this memory beside
/// the events that it keeps.
pub(super) const QUERY_BYTES: i64 = 2 << 20;

/// Average size of an event, in bytes, below which a scan that has met large events returns to queries without a count
/// of bytes (`sql/relay/pending_page.sql`).
pub(super) const LARGE: usize = 16 * 1024;

/// How the queries of a scan read rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queries {
    /// Most rows of one query.
    pub(super) rows: i32,
    /// Whether the database tests each row before it returns it.
    pub(super) row_by_row: bool,
}

impl Queries {
    pub(super) const ROW_BY_ROW: Self = Self { rows: 1, row_by_row: true };
}

/// The events that a scan has found.
pub(super) struct Found<'s> {
    scan: &'s Scan,
    left_out: HashSet<(Option<&'s [u8]>, &'s [u8])>,
    pub(super) events: Vec<Arc<Event>>,
    /// Memory of the events, in bytes.
    pub(super) bytes: usize,
    /// Whether a limit of the scan was reached before the rows ended.
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

    /// Number of rows to ask for next: a full query, or as many as the scan's limits have room for. The server would
    /// print further rows for nothing: at 10 kB a row, a quarter of all rows, and of its CPU time for each event.
    pub(super) fn may_take(&self, queries: Queries) -> i32 {
        if !self.scan.known.is_empty() {
            return queries.rows; // the query may return any number of known events before the new ones
        }
        let query_bytes = usize::try_from(QUERY_BYTES).unwrap_or(usize::MAX);
        let average = self.bytes.checked_div(self.events.len());
        let average = average.unwrap_or(query_bytes / usize::try_from(queries.rows).unwrap_or(1).max(1)).max(1);
        let by_bytes = self.scan.max_bytes.saturating_sub(self.bytes) / average + 1;
        let by_rows = self.scan.max_rows.saturating_sub(self.events.len()).max(1);
        i32::try_from(by_bytes.min(by_rows)).unwrap_or(i32::MAX).min(queries.rows)
    }

    /// Adds a row's event, unless the event is in memory already or its key is left out. Returns the row's `seq`;
    /// `None`: a limit was reached, and the row was not taken.
    pub(super) fn take(&mut self, layout: &Layout, row: &tokio_postgres::Row) -> Result<Option<i64>, StoreError> {
        let mut fields = [None; Layout::WIDTH];
        for (place, field) in fields.iter_mut().enumerate() {
            *field = row.try_get::<_, Option<Raw<'_>>>(place)?.map(|Raw(bytes)| bytes);
        }
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

/// A value in PostgreSQL's binary format.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
