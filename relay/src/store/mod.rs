//! The relay's one SQL connection: scans of what is owed, and verdicts written back.
//!
//! One operation runs at a time. That is what makes a scan exact: a row that it finds `PENDING` and that is in memory
//! is in memory for that very reason, since no verdict can be on its way past the scan.

mod error;
mod scan;

use std::{
    str::FromStr,
    sync::{Arc, atomic::AtomicI32},
};

use tokio_postgres::{Client, Statement};
use uuid::Uuid;

pub use self::{
    error::{Remedy, StoreError},
    scan::{Due, Page, Scan},
};
use crate::{
    row::Layout,
    settle::{Batch, NotWritten},
    snapshot::Snapshot,
};

/// How long a statement waits for a lock of someone else's before it gives up, to be tried again: meanwhile it delays
/// everything else. Less than the default `deadlock_timeout`, so that nobody's transaction is cancelled because of the relay.
const PATIENCE_WITH_LOCKS: &str = "SET lock_timeout = '250ms'";

/// What changes whenever the publication does: the rows in which PostgreSQL has it, and who wrote them. Null where those do not say
/// all, as for a publication of a whole schema.
const PUBLISHED: &str = "SELECT pg_current_snapshot()::text, (
        SELECT concat_ws(' ', publication.oid, publication.xmin, rel.oid, rel.xmin)
        FROM pg_catalog.pg_publication AS publication
        LEFT JOIN pg_catalog.pg_publication_rel AS rel
            ON rel.prpubid = publication.oid AND rel.prrelid = pg_catalog.to_regclass('outbox.events')
        WHERE publication.pubname = $1 AND (rel.oid IS NOT NULL OR publication.puballtables)
    )";

/// The publication as it is now.
#[derive(Debug)]
pub struct Published {
    /// Another text after any change; `None`: it cannot be told.
    pub identity: Option<String>,
    /// What was visible then.
    pub snapshot: Snapshot,
}

/// The prepared statements and their connection.
#[derive(Debug)]
pub struct Store {
    client: Client,
    snapshot: Statement,
    flushed: Statement,
    flush: Statement,
    pending: Statement,
    holding: Statement,
    due: Statement,
    next_due: Statement,
    settle: Statement,
    ensure_publication: Statement,
    published: Statement,
    layout: Layout,
    /// Rows that one query of a scan asks for.
    chunk_rows: AtomicI32,
}

impl Store {
    /// Prepares the statements.
    pub async fn prepare(client: Client) -> Result<Self, StoreError> {
        let columns = Layout::columns();
        let pending = format!("SELECT {columns} FROM outbox.pending($1, $2, $3, $4, $5, $6, $7, $8)");
        let pending = client.prepare(&pending).await?;
        let layout = Layout::new(pending.columns().iter().map(|column| column.name()))?;
        client.batch_execute(PATIENCE_WITH_LOCKS).await?;
        Ok(Self {
            snapshot: client.prepare("SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text").await?,
            flushed: client.prepare("SELECT pg_current_wal_flush_lsn()::text").await?,
            flush: client.prepare("SELECT outbox.flush($1::text::pg_lsn)").await?,
            due: client.prepare(&format!("SELECT {columns} FROM outbox.due($1, $2, $3, $4, $5, $6)")).await?,
            next_due: client.prepare("SELECT outbox.next_due()").await?,
            holding: client.prepare("SELECT id, aggregate_type, aggregate_id FROM outbox.holding($1)").await?,
            settle: client
                .prepare("SELECT id, status::text FROM outbox.settle($1, $2::text[]::outbox.status[], $3, $4, $5, $6)")
                .await?,
            ensure_publication: client.prepare("SELECT outbox.ensure_publication($1)").await?,
            published: client.prepare(PUBLISHED).await?,
            pending,
            layout,
            chunk_rows: AtomicI32::new(scan::CHUNK_ROWS),
            client,
        })
    }

    /// Which transactions are visible now.
    pub async fn current_snapshot(&self) -> Result<Snapshot, StoreError> {
        parse(&self.client.query_one(&self.snapshot, &[]).await?, 0)
    }

    /// Writes verdicts, all or none but those that it says.
    pub async fn settle(self: Arc<Self>, batch: &Batch) -> Result<NotWritten, StoreError> {
        let settlements = &batch.settlements;
        let ids: Vec<Uuid> = settlements.iter().map(|settlement| settlement.id).collect();
        let statuses: Vec<&str> = settlements.iter().map(|settlement| settlement.status.as_str()).collect();
        let errors: Vec<Option<&str>> = settlements.iter().map(|settlement| settlement.error.as_deref()).collect();
        let has_retries = settlements.iter().any(|settlement| settlement.retry_in.is_some() || settlement.holds_key);
        let of_retries = if has_retries { settlements.as_slice() } else { &[] };
        let retry_ms: Vec<Option<i32>> = of_retries
            .iter()
            .map(|settlement| settlement.retry_in.map(|wait| i32::try_from(wait.as_millis()).unwrap_or(i32::MAX)))
            .collect();
        let holds: Vec<bool> = of_retries.iter().map(|settlement| settlement.holds_key).collect();
        let rows =
            self.client.query(&self.settle, &[&ids, &statuses, &errors, &retry_ms, &holds, &batch.skip_locked]).await?;
        let mut not_written = NotWritten::default();
        for row in &rows {
            let status: Option<&str> = row.try_get(1)?;
            let which = match status {
                Some("PENDING") if batch.skip_locked => &mut not_written.locked,
                Some("PENDING") | None => &mut not_written.missing,
                Some(_) => &mut not_written.finished,
            };
            which.insert(row.try_get(0)?);
        }
        Ok(not_written)
    }

    /// Makes or repairs the publication. Returns what had to be done: `exists`, if nothing.
    pub async fn ensure_publication(self: Arc<Self>, name: String) -> Result<String, StoreError> {
        Ok(self.client.query_one(&self.ensure_publication, &[&name]).await?.try_get(0)?)
    }

    /// Looks whether the publication is still the same.
    pub async fn published(&self, name: String) -> Result<Published, StoreError> {
        let row = self.client.query_one(&self.published, &[&name]).await?;
        Ok(Published { identity: row.try_get(1)?, snapshot: parse(&row, 0)? })
    }
}

fn parse<T: FromStr<Err: std::fmt::Display>>(row: &tokio_postgres::Row, place: usize) -> Result<T, StoreError> {
    let text: &str = row.try_get(place)?;
    text.parse().map_err(|error: T::Err| StoreError::Answer(error.to_string()))
}
