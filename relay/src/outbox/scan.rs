//! Reading what is owed, chunk by chunk, as far as memory reaches.

use std::{
    collections::HashSet,
    future::Future,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime},
};

use futures_util::TryStreamExt;
use outbox_core::{Due, Event, KeyHolder, KeyName, Page, Scan, Text};
use tokio_postgres::{
    RowStream,
    types::{FromSql, ToSql, Type},
};
use tracing::warn;

use super::{Layout, Row, Store, StoreError, parse, sql};
use crate::lsn::Lsn;

/// Rows that one query of a scan brings at most.
pub(super) const CHUNK_ROWS: i32 = 500;
/// Stored bytes that one query of a scan brings at most, but for a single larger row: what a scan needs of memory
/// beside the events that it keeps.
const CHUNK_BYTES: i64 = 2 << 20;

/// How a scan reads rows.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    /// In one query, at most.
    rows: i32,
    /// Each row is tried before it is read.
    careful: bool,
}

impl Chunks {
    const CAREFUL: Self = Self { rows: 1, careful: true };
}

impl Store {
    /// Reads what is owed to the broker, in `seq` order, without what waits for its time: chunk by chunk under one
    /// snapshot, until memory or the table ends.
    pub(super) async fn pending(&self, scan: Scan) -> Result<Page, StoreError> {
        let page = self.in_transaction(self.read_pending(&scan, self.chunks(&scan))).await;
        match page {
            Err(error) if error.may_be_a_rows() && !scan.careful => {
                warn!(target: "relay", %error, "a page of the table cannot be read: reading it row by row");
                self.in_transaction(self.read_pending(&scan, Chunks::CAREFUL)).await
            }
            page => page,
        }
    }

    /// Reads the deferred events whose time has come, in the order in which it came: chunk by chunk under one snapshot, until
    /// memory or the due events end.
    pub(super) async fn due(&self, scan: Scan) -> Result<Due, StoreError> {
        let due = self.in_transaction(self.read_due(&scan, self.chunks(&scan))).await;
        match due {
            Err(error) if error.may_be_a_rows() && !scan.careful => {
                warn!(target: "relay", %error, "events that are due cannot be read: reading them row by row");
                self.in_transaction(self.read_due(&scan, Chunks::CAREFUL)).await
            }
            due => due,
        }
    }

    fn chunks(&self, scan: &Scan) -> Chunks {
        if scan.careful { Chunks::CAREFUL } else { Chunks { rows: self.chunk_rows.load(Relaxed), careful: false } }
    }

    /// Leaves no transaction open when the work fails.
    async fn in_transaction<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let result = work.await;
        if result.is_err() && !self.client.is_closed() {
            self.client.batch_execute(sql::ROLLBACK).await?;
        }
        result
    }

    async fn read_pending(&self, scan: &Scan, chunks: Chunks) -> Result<Page, StoreError> {
        let types: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_type.as_deref()).collect();
        let ids: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_id.as_str()).collect();
        let older_than = scan.older_than.map(i64::from);
        let mut found = Found::new(scan);
        let mut after_seq = scan.after_seq;
        let careful = chunks.careful;
        let chunk = async |after_seq: i64, max_rows: i32| {
            let parameters: [&(dyn ToSql + Sync); 8] =
                [&after_seq, &max_rows, &CHUNK_BYTES, &types, &ids, &older_than, &scan.heed_holders, &careful];
            self.client.query_raw(&self.pending, parameters).await
        };
        // Pipelined: one round trip for the transaction's start and its first chunk.
        // One more, to see whether there are more.
        let max_holders =
            if scan.after_seq == 0 { i32::try_from(scan.max_holders).unwrap_or(i32::MAX - 1) + 1 } else { 0 };
        let parameters: [&(dyn ToSql + Sync); 1] = [&max_holders];
        let ((), seen, holders, mut rows) = tokio::try_join!(
            biased;
            self.client.batch_execute(sql::BEGIN),
            self.client.query_one(&self.snapshot, &[]),
            self.client.query(&self.holding, &parameters),
            chunk(after_seq, found.may_take(chunks)),
        )?;
        while let Some(last) = self.collect(rows, &mut found).await? {
            after_seq = last.seq;
            if found.cut {
                break;
            }
            rows = chunk(after_seq, found.may_take(chunks)).await?;
        }
        let horizon: Lsn = parse(&seen, 1)?;
        self.commit_read(horizon, !found.events.is_empty()).await?;
        Ok(Page {
            snapshot: parse(&seen, 0)?,
            horizon: outbox_core::Lsn(horizon.0),
            stopped_at: found.cut.then_some(after_seq),
            events: found.events,
            left_out: scan.left_out.clone(),
            holders_cut: holders.len() > scan.max_holders,
            holders: holders.iter().take(scan.max_holders).map(to_holder).collect::<Result<_, _>>()?,
        })
    }

    async fn read_due(&self, scan: &Scan, chunks: Chunks) -> Result<Due, StoreError> {
        // In this order: an event that comes due in between is then found by the chunks, and missed by none.
        let ((), seen, next) = tokio::try_join!(
            biased;
            self.client.batch_execute(sql::BEGIN),
            self.client.query_one(&self.snapshot, &[]),
            self.client.query_one(&self.next_due, &[]),
        )?;
        let next: Option<i64> = next.try_get(0)?;
        let mut found = Found::new(scan);
        let mut after: (Option<SystemTime>, i64) = (None, 0);
        while !found.cut {
            let parameters: [&(dyn ToSql + Sync); 6] =
                [&found.may_take(chunks), &CHUNK_BYTES, &after.0, &after.1, &scan.heed_holders, &chunks.careful];
            let rows = self.client.query_raw(&self.due, parameters).await?;
            let Some(last) = self.collect(rows, &mut found).await? else { break };
            after = (last.row.try_get("available_at")?, last.seq);
        }
        self.commit_read(parse(&seen, 1)?, !found.events.is_empty()).await?;
        let next_in = next.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        Ok(Due { snapshot: parse(&seen, 0)?, events: found.events, cut: found.cut, next_in })
    }

    /// Ends a transaction that has read events. Those may be published only when the commits that the snapshot saw, all of which
    /// lie before `horizon`, are on the server's disk: one under `synchronous_commit = off` is seen before it is, and is gone
    /// after a crash. The stream needs none of this: the server streams only what is on its disk.
    async fn commit_read(&self, horizon: Lsn, has_events: bool) -> Result<(), StoreError> {
        let ((), flushed) = tokio::try_join!(biased; self.client.batch_execute(sql::COMMIT), self.client.query_one(&self.flushed, &[]))?;
        if has_events && parse::<Lsn>(&flushed, 0)? < horizon {
            self.client.query_one(&self.flush, &[&horizon.to_string()]).await?;
        }
        Ok(())
    }

    /// Adds the rows that are not in memory, up to the scan's limits, one by one as they come: printed, they can be far larger than
    /// they are stored. Returns the last row that was dealt with; `None`: there was none.
    ///
    /// The server goes on sending what is not taken any more. So it is asked for as many as, going by these, print a chunk's bytes.
    async fn collect(&self, rows: RowStream, found: &mut Found<'_>) -> Result<Option<Last>, StoreError> {
        let mut rows = pin!(rows);
        let mut last = None;
        let bytes_before = found.bytes;
        let mut taken = 0_usize;
        while let Some(row) = rows.try_next().await? {
            let Some(seq) = found.take(&self.layout, &row)? else { break };
            taken += 1;
            last = Some(Last { row, seq });
        }
        if let Some(average) = (found.bytes - bytes_before).checked_div(taken) {
            let next = i32::try_from(CHUNK_BYTES.unsigned_abs() / (average as u64).max(1)).unwrap_or(CHUNK_ROWS);
            self.chunk_rows.store(next.clamp(1, CHUNK_ROWS), Relaxed);
        }
        // Whether there are more is not worth another chunk: the next page tells.
        found.cut |= last.is_some() && found.is_at_limit();
        Ok(last)
    }
}

/// The last row that a chunk brought.
struct Last {
    row: tokio_postgres::Row,
    seq: i64,
}

struct Found<'s> {
    scan: &'s Scan,
    left_out: HashSet<(Option<&'s [u8]>, &'s [u8])>,
    events: Vec<Arc<Event>>,
    bytes: usize,
    /// A limit was reached before the rows ended.
    cut: bool,
}

impl<'s> Found<'s> {
    fn new(scan: &'s Scan) -> Self {
        let name = |key: &'s KeyName| (key.aggregate_type.as_ref().map(String::as_bytes), key.aggregate_id.as_bytes());
        let left_out = scan.left_out.iter().map(name).collect();
        Self { scan, left_out, events: Vec::new(), bytes: 0, cut: false }
    }

    fn is_at_limit(&self) -> bool {
        self.events.len() >= self.scan.max_rows || self.bytes >= self.scan.max_bytes
    }

    /// Rows to ask for next: a chunk's, or what the limits leave. What comes beyond was fetched and printed for nothing: with 10 kB a
    /// row a quarter of a page, which cost PostgreSQL as much of an event's CPU.
    fn may_take(&self, chunks: Chunks) -> i32 {
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
    fn take(&mut self, layout: &Layout, row: &tokio_postgres::Row) -> Result<Option<i64>, StoreError> {
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

fn to_holder(row: &tokio_postgres::Row) -> Result<KeyHolder, StoreError> {
    Ok(KeyHolder {
        id: row.try_get(0)?,
        key: KeyName { aggregate_type: row.try_get(1)?, aggregate_id: row.try_get(2)? },
    })
}
