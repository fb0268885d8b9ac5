//! Reading what is owed, chunk by chunk, as far as memory reaches.

use std::{
    collections::HashSet,
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio_postgres::types::{FromSql, ToSql, Type};
use tracing::warn;
use uuid::Uuid;

use super::{Store, StoreError, parse};
use crate::{
    dispatch::{Holding, KeyName},
    event::{Event, Text},
    hash::BuildFold,
    lsn::Lsn,
    row::Row,
    snapshot::Snapshot,
};

/// Rows that one query of a scan brings at most.
const CHUNK_ROWS: i32 = 500;
/// One snapshot for all queries of a scan.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Stored bytes that one query of a scan brings at most, but for a single larger row: what a scan needs of memory
/// beside the events that it keeps.
const CHUNK_BYTES: i64 = 2 << 20;

/// What is asked of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// Rows with a greater `seq`.
    pub after_seq: i64,
    /// Up to the first row that this transaction or a later one wrote.
    pub older_than: Option<u32>,
    /// Stop after so many rows that are not in memory.
    pub max_rows: usize,
    /// Stop after so many bytes of them.
    pub max_bytes: usize,
    /// What is in memory of those rows, and is left out.
    pub known: HashSet<Uuid, BuildFold>,
    /// Keys that are left out.
    pub left_out: Vec<KeyName>,
    /// Read so many of the events that hold their keys, at most.
    pub max_holding: usize,
    /// Whether events wait behind one that holds their key.
    pub heed_holds: bool,
    /// Try each row before it is read.
    pub careful: bool,
}

/// What a scan of the backlog found.
#[derive(Debug)]
pub struct Page {
    /// What the scan could see.
    pub snapshot: Snapshot,
    /// A WAL position from when the snapshot was taken: every commit that it sees lies before.
    pub horizon: Lsn,
    /// Owed to the broker and not in memory, in order.
    pub events: Vec<Arc<Event>>,
    /// `None`: that is all there is. Otherwise the last `seq` that was dealt with.
    pub stopped_at: Option<i64>,
    /// Keys that were left out.
    pub left_out: Vec<KeyName>,
    /// Events that hold their keys; only a whole pass reads them. The events behind them were left out, too.
    pub holding: Vec<Holding>,
    /// Whether there are more of them.
    pub holding_cut: bool,
}

/// What a scan of the deferred events found.
#[derive(Debug)]
pub struct Due {
    /// What the scan could see.
    pub snapshot: Snapshot,
    /// Events whose time has come, not in memory.
    pub events: Vec<Arc<Event>>,
    /// Whether memory ended before they did.
    pub cut: bool,
    /// Time until the next one.
    pub next_in: Option<Duration>,
}

/// How a scan reads rows.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    /// In one query, at most.
    rows: i32,
    /// Each row is tried before it is read.
    careful: bool,
}

impl Chunks {
    const USUAL: Self = Self { rows: CHUNK_ROWS, careful: false };
    const CAREFUL: Self = Self { rows: 1, careful: true };

    fn of(scan: &Scan) -> Self {
        if scan.careful { Self::CAREFUL } else { Self::USUAL }
    }
}

impl Store {
    /// Reads what is owed to the broker, in `seq` order, without what waits for its time: chunk by chunk under one
    /// snapshot, until memory or the table ends.
    pub async fn pending(self: Arc<Self>, scan: Scan) -> Result<Page, StoreError> {
        let page = self.in_transaction(self.read_pending(&scan, Chunks::of(&scan))).await;
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
    pub async fn due(self: Arc<Self>, scan: Scan) -> Result<Due, StoreError> {
        let due = self.in_transaction(self.read_due(&scan, Chunks::of(&scan))).await;
        match due {
            Err(error) if error.may_be_a_rows() && !scan.careful => {
                warn!(target: "relay", %error, "events that are due cannot be read: reading them row by row");
                self.in_transaction(self.read_due(&scan, Chunks::CAREFUL)).await
            }
            due => due,
        }
    }

    /// Leaves no transaction open when the work fails.
    async fn in_transaction<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let result = work.await;
        if result.is_err() && !self.client.is_closed() {
            self.client.batch_execute("ROLLBACK").await?;
        }
        result
    }

    async fn read_pending(&self, scan: &Scan, chunks: Chunks) -> Result<Page, StoreError> {
        let types: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_type.as_deref()).collect();
        let ids: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_id.as_str()).collect();
        let older_than = scan.older_than.map(i64::from);
        let mut found = Found::default();
        let mut after_seq = scan.after_seq;
        let Chunks { rows: max_rows, careful } = chunks;
        let chunk = async |after_seq: i64| {
            self.client
                .query(
                    &self.pending,
                    &[&after_seq, &max_rows, &CHUNK_BYTES, &types, &ids, &older_than, &scan.heed_holds, &careful],
                )
                .await
        };
        // Pipelined: one round trip for the transaction's start and its first chunk.
        // One more, to see whether there are more.
        let max_holding =
            if scan.after_seq == 0 { i32::try_from(scan.max_holding).unwrap_or(i32::MAX - 1) + 1 } else { 0 };
        let holding: [&(dyn ToSql + Sync); 1] = [&max_holding];
        let ((), seen, holding, mut rows) = tokio::try_join!(
            biased;
            self.client.batch_execute(BEGIN),
            self.client.query_one(&self.snapshot, &[]),
            self.client.query(&self.holding, &holding),
            chunk(after_seq),
        )?;
        while !rows.is_empty() {
            after_seq = self.collect(&rows, scan, &mut found)?.unwrap_or(after_seq);
            rows.clear(); // not beside the next chunk, which can be as large
            if found.cut {
                break;
            }
            rows = chunk(after_seq).await?;
        }
        let horizon = parse(&seen, 1)?;
        self.commit_read(horizon, !found.events.is_empty()).await?;
        Ok(Page {
            snapshot: parse(&seen, 0)?,
            horizon,
            events: found.events,
            stopped_at: found.cut.then_some(after_seq),
            left_out: scan.left_out.clone(),
            holding_cut: holding.len() > scan.max_holding,
            holding: holding.iter().take(scan.max_holding).map(to_holding).collect::<Result<_, _>>()?,
        })
    }

    async fn read_due(&self, scan: &Scan, chunks: Chunks) -> Result<Due, StoreError> {
        // In this order: an event that comes due in between is then found by the chunks, and missed by none.
        let ((), seen, next) = tokio::try_join!(
            biased;
            self.client.batch_execute(BEGIN),
            self.client.query_one(&self.snapshot, &[]),
            self.client.query_one(&self.next_due, &[]),
        )?;
        let next: Option<i64> = next.try_get(0)?;
        let mut found = Found::default();
        let mut after: (Option<SystemTime>, i64) = (None, 0);
        while !found.cut {
            let rows = self
                .client
                .query(&self.due, &[&chunks.rows, &CHUNK_BYTES, &after.0, &after.1, &scan.heed_holds, &chunks.careful])
                .await?;
            let Some(last) = rows.last() else { break };
            after = (last.try_get("available_at")?, last.try_get("seq")?);
            self.collect(&rows, scan, &mut found)?;
        }
        self.commit_read(parse(&seen, 1)?, !found.events.is_empty()).await?;
        let next_in = next.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        Ok(Due { snapshot: parse(&seen, 0)?, events: found.events, cut: found.cut, next_in })
    }

    /// Ends a transaction that has read events. Those may be published only when the commits that the snapshot saw, all of which
    /// lie before `horizon`, are on the server's disk: one under `synchronous_commit = off` is seen before it is, and is gone
    /// after a crash. The stream needs none of this: the server streams only what is on its disk.
    async fn commit_read(&self, horizon: Lsn, has_events: bool) -> Result<(), StoreError> {
        let ((), flushed) =
            tokio::try_join!(biased; self.client.batch_execute("COMMIT"), self.client.query_one(&self.flushed, &[]))?;
        if has_events && parse::<Lsn>(&flushed, 0)? < horizon {
            self.client.query_one(&self.flush, &[&horizon.to_string()]).await?;
        }
        Ok(())
    }

    /// Adds the rows that are not in memory, up to the scan's limits. Returns the last `seq` that was dealt with.
    fn collect<'s>(
        &self,
        rows: &[tokio_postgres::Row],
        scan: &'s Scan,
        found: &mut Found,
    ) -> Result<Option<i64>, StoreError> {
        let name = |key: &'s KeyName| (key.aggregate_type.as_ref().map(String::as_bytes), key.aggregate_id.as_bytes());
        let left_out: HashSet<_> = scan.left_out.iter().map(name).collect();
        let mut last_seq = None;
        let mut fields = Vec::new(); // one for all rows
        for row in rows {
            fields.clear();
            for place in 0..row.len() {
                fields.push(row.try_get::<_, Option<Raw<'_>>>(place)?.map(|Raw(bytes)| bytes));
            }
            let row = Row::new(&self.layout, &fields);
            if !scan.known.contains(&row.id()?) {
                if found.events.len() >= scan.max_rows || found.bytes >= scan.max_bytes {
                    found.cut = true;
                    break;
                }
                let event = row.to_event()?;
                let key = event
                    .aggregate_id
                    .as_ref()
                    .map(|id| (event.aggregate_type.as_ref().map(Text::as_bytes), id.as_bytes()));
                if !event.holds_key && key.is_some_and(|key| left_out.contains(&key)) {
                    continue;
                }
                found.bytes += event.memory();
                found.events.push(Arc::new(event));
            }
            last_seq = Some(row.seq()?);
        }
        Ok(last_seq)
    }
}

#[derive(Default)]
struct Found {
    events: Vec<Arc<Event>>,
    bytes: usize,
    /// A limit was reached before the rows ended.
    cut: bool,
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

fn to_holding(row: &tokio_postgres::Row) -> Result<Holding, StoreError> {
    Ok(Holding { id: row.try_get(0)?, key: KeyName { aggregate_type: row.try_get(1)?, aggregate_id: row.try_get(2)? } })
}
