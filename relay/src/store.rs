//! The relay's one SQL connection: scans of what is owed, and verdicts written back.
//!
//! One operation runs at a time. That is what makes a scan exact: a row that it finds `PENDING` and that is in memory
//! is in memory for that very reason, since no verdict can be on its way past the scan.

use std::{
    collections::HashSet,
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio_postgres::{
    Client, Statement,
    error::SqlState,
    types::{FromSql, Type},
};
use uuid::Uuid;

use crate::{
    dispatch::{Settlement, SpilledKey},
    event::Event,
    lsn::Lsn,
    row::{BadRow, Layout, Row},
    snapshot::Snapshot,
};

/// Rows that one query of a scan brings at most.
const CHUNK_ROWS: i32 = 500;
/// Stored bytes that one query of a scan brings at most, but for a single larger row: what a scan needs of memory
/// beside the events that it keeps.
const CHUNK_BYTES: i64 = 2 << 20;

/// What is asked of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// Rows with a greater `seq`.
    pub after_seq: i64,
    /// Stop after so many rows that are not in memory.
    pub max_rows: usize,
    /// Stop after so many bytes of them.
    pub max_bytes: usize,
    /// What is in memory, and is left out.
    pub known: HashSet<Uuid>,
    /// Keys that are left out.
    pub left_out: Vec<SpilledKey>,
}

/// What a scan of the backlog found.
#[derive(Debug)]
pub struct Page {
    /// What the scan could see.
    pub snapshot: Snapshot,
    /// A WAL position after the snapshot was taken.
    pub horizon: Lsn,
    /// Owed to the broker and not in memory, in order.
    pub events: Vec<Event>,
    /// `None`: that is all there is. Otherwise the last `seq` that was dealt with.
    pub stopped_at: Option<i64>,
    /// Keys that were left out.
    pub left_out: Vec<SpilledKey>,
}

/// What a scan of the deferred events found.
#[derive(Debug)]
pub struct Due {
    /// What the scan could see.
    pub snapshot: Snapshot,
    /// Events whose time has come, not in memory.
    pub events: Vec<Event>,
    /// Whether memory ended before they did.
    pub cut: bool,
    /// Time until the next one.
    pub next_in: Option<Duration>,
}

/// A statement failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The server's or the connection's error.
    #[error(transparent)]
    Sql(#[from] tokio_postgres::Error),
    /// The table is not the extension's.
    #[error(transparent)]
    BadRow(#[from] BadRow),
    /// The server's answer cannot be read.
    #[error("unexpected answer: {0}")]
    Answer(String),
}

impl StoreError {
    /// Whether the same statement may succeed when it is tried again on the same connection: the server refused it (a
    /// deadlock, a lock timeout, a full disk, a trigger of someone's), and the connection goes on. Not on a server that
    /// takes no writes, SQLSTATE 25006: after a failover the primary is elsewhere.
    pub fn is_passing(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        !error.is_closed() && error.code().is_some_and(|state| *state != SqlState::READ_ONLY_SQL_TRANSACTION)
    }
}

/// The prepared statements and their connection.
#[derive(Debug)]
pub struct Store {
    client: Client,
    snapshot: Statement,
    horizon: Statement,
    pending: Statement,
    due: Statement,
    next_due: Statement,
    settle: Statement,
    layout: Layout,
}

impl Store {
    /// Prepares the statements.
    pub async fn prepare(client: Client) -> Result<Self, StoreError> {
        let pending = client.prepare("SELECT * FROM outbox.pending($1, $2, $3, $4, $5)").await?;
        let layout = Layout::new(pending.columns().iter().map(|column| column.name()))?;
        Ok(Self {
            snapshot: client.prepare("SELECT pg_current_snapshot()::text").await?,
            horizon: client.prepare("SELECT pg_current_wal_insert_lsn()::text").await?,
            due: client.prepare("SELECT * FROM outbox.due($1, $2, $3, $4)").await?,
            next_due: client.prepare("SELECT outbox.next_due()").await?,
            settle: client.prepare("SELECT outbox.settle($1, $2::text[]::outbox.status[], $3)").await?,
            pending,
            layout,
            client,
        })
    }

    /// Reads what is owed to the broker, in `seq` order, without what waits for its time: chunk by chunk under one
    /// snapshot, until memory or the table ends.
    pub async fn pending(self: Arc<Self>, scan: Scan) -> Result<Page, StoreError> {
        let types: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_type.as_deref()).collect();
        let ids: Vec<_> = scan.left_out.iter().map(|key| key.aggregate_id.as_str()).collect();
        let mut found = Found::default();
        let mut after_seq = scan.after_seq;
        let chunk = async |after_seq: i64| {
            self.client.query(&self.pending, &[&after_seq, &CHUNK_ROWS, &CHUNK_BYTES, &types, &ids]).await
        };
        // Pipelined: one round trip for the transaction's start and its first chunk.
        let ((), snapshot, mut rows) = tokio::try_join!(
            biased;
            self.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            self.client.query_one(&self.snapshot, &[]),
            chunk(after_seq),
        )?;
        while !rows.is_empty() && !found.cut {
            after_seq = self.collect(&rows, &scan, &mut found)?.unwrap_or(after_seq);
            rows = chunk(after_seq).await?;
        }
        let ((), horizon) =
            tokio::try_join!(biased; self.client.batch_execute("COMMIT"), self.client.query_one(&self.horizon, &[]))?;
        let stopped_at = found.cut.then_some(after_seq);
        Ok(Page {
            snapshot: parse(&snapshot)?,
            horizon: parse(&horizon)?,
            events: found.events,
            stopped_at,
            left_out: scan.left_out,
        })
    }

    /// Reads the deferred events whose time has come, in the order in which it came: chunk by chunk, until memory or the
    /// due events end.
    pub async fn due(self: Arc<Self>, scan: Scan) -> Result<Due, StoreError> {
        // In this order: an event that comes due in between is then found by the chunks, and missed by none.
        let snapshot = parse(&self.client.query_one(&self.snapshot, &[]).await?)?;
        let next: Option<i64> = self.client.query_one(&self.next_due, &[]).await?.try_get(0)?;
        let mut found = Found::default();
        let mut after: (Option<SystemTime>, i64) = (None, 0);
        while !found.cut {
            let rows = self.client.query(&self.due, &[&CHUNK_ROWS, &CHUNK_BYTES, &after.0, &after.1]).await?;
            let Some(last) = rows.last() else { break };
            after = (last.try_get("available_at")?, last.try_get("seq")?);
            self.collect(&rows, &scan, &mut found)?;
        }
        let next_in = next.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        Ok(Due { snapshot, events: found.events, cut: found.cut, next_in })
    }

    /// Which transactions are visible now.
    pub async fn current_snapshot(self: Arc<Self>) -> Result<Snapshot, StoreError> {
        parse(&self.client.query_one(&self.snapshot, &[]).await?)
    }

    /// Writes verdicts, all or none. Returns the events whose rows are not to be seen.
    pub async fn settle(self: Arc<Self>, settlements: &[Settlement]) -> Result<HashSet<Uuid>, StoreError> {
        let ids: Vec<Uuid> = settlements.iter().map(|settlement| settlement.id).collect();
        let statuses: Vec<&str> = settlements.iter().map(|settlement| settlement.status.as_str()).collect();
        let errors: Vec<Option<&str>> = settlements.iter().map(|settlement| settlement.error.as_deref()).collect();
        let rows = self.client.query(&self.settle, &[&ids, &statuses, &errors]).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Adds the rows that are not in memory, up to the scan's limits. Returns the last `seq` that was dealt with.
    fn collect(&self, rows: &[tokio_postgres::Row], scan: &Scan, found: &mut Found) -> Result<Option<i64>, StoreError> {
        let mut last_seq = None;
        for row in rows {
            let fields = (0..row.len())
                .map(|place| row.try_get::<_, Option<Raw<'_>>>(place).map(|raw| raw.map(|Raw(bytes)| bytes)))
                .collect::<Result<Vec<_>, _>>()?;
            let row = Row::new(&self.layout, &fields);
            if !scan.known.contains(&row.id()?) {
                if found.events.len() >= scan.max_rows || found.bytes >= scan.max_bytes {
                    found.cut = true;
                    break;
                }
                let event = row.to_event()?;
                if scan.left_out.iter().any(|key| key.is_of(&event)) {
                    continue;
                }
                found.bytes += event.memory();
                found.events.push(event);
            }
            last_seq = Some(row.seq()?);
        }
        Ok(last_seq)
    }
}

#[derive(Default)]
struct Found {
    events: Vec<Event>,
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

fn parse<T: FromStr<Err: std::fmt::Display>>(row: &tokio_postgres::Row) -> Result<T, StoreError> {
    let text: &str = row.try_get(0)?;
    text.parse().map_err(|error: T::Err| StoreError::Answer(error.to_string()))
}
