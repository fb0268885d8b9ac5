//! The outbox in the database: its table's rows, and every statement that the relay sends.

mod blocker;
mod error;
mod found;
mod row;
mod scan;
pub(crate) mod sequence;
mod slot;
pub mod sql;

use std::{
    borrow::Cow,
    future::Future,
    pin::Pin,
    str::FromStr,
    sync::{Arc, atomic::AtomicI32},
};

use outbox_core::{Batch, Finished, NotWritten, Published, Request, Snapshot, Verdict};
use tokio_postgres::{Client, Statement, error::SqlState};
use tracing::debug;
use uuid::Uuid;

pub(crate) use self::{
    blocker::Blocker,
    error::refusal,
    slot::{SlotLook, Writer},
};
pub use self::{
    error::StoreError,
    row::{BadRow, Layout, Row},
};
use crate::error::chain;

/// An operation that runs.
pub type Operation = Pin<Box<dyn Future<Output = Result<Finished, StoreError>> + Send>>;

/// The relay's one SQL connection, and its prepared statements.
#[derive(Debug)]
pub struct Store {
    client: Client,
    publication: String,
    snapshot: Statement,
    flushed: Statement,
    flush: Statement,
    owed: Statement,
    pending: Statement,
    holding: Statement,
    due: Statement,
    next_due: Statement,
    settle: Statement,
    ensure_publication: Statement,
    ensure_sequence: Statement,
    published: Statement,
    writers: Statement,
    slot: Statement,
    oldest_transaction: Statement,
    table_lock: Statement,
    layout: Layout,
    /// Whether the database can hold text in any script.
    holds_any_text: bool,
    /// Rows that one query of a scan asks for.
    chunk_rows: AtomicI32,
}

impl Store {
    /// Prepares the statements.
    pub async fn prepare(client: Client, publication: &str) -> Result<Self, StoreError> {
        let columns = Layout::columns();
        let pending = client.prepare(&sql::pending(&columns)).await?;
        let layout = Layout::new(pending.columns().iter().map(|column| column.name()))?;
        if let Err(error) = client.batch_execute(sql::PATIENCE_WITH_LOCKS).await {
            debug!(target: "relay", error = chain(&error), "statements wait for locks as long as the role's settings say");
        }
        let encoding: String = client.query_one(sql::ENCODING, &[]).await?.try_get(0)?;
        Ok(Self {
            publication: publication.to_owned(),
            snapshot: client.prepare(sql::SNAPSHOT).await?,
            flushed: client.prepare(sql::FLUSHED).await?,
            flush: client.prepare(sql::FLUSH).await?,
            owed: client.prepare(&sql::owed(&columns)).await?,
            due: client.prepare(&sql::due(&columns)).await?,
            next_due: client.prepare(sql::NEXT_DUE).await?,
            holding: client.prepare(sql::HOLDING).await?,
            settle: client.prepare(sql::SETTLE).await?,
            ensure_publication: client.prepare(sql::ENSURE_PUBLICATION).await?,
            ensure_sequence: client.prepare(sql::ENSURE_SEQUENCE).await?,
            published: client.prepare(sql::PUBLISHED).await?,
            writers: client.prepare(sql::WRITERS).await?,
            slot: client.prepare(sql::SLOT_KEEPS).await?,
            oldest_transaction: client.prepare(sql::OLDEST_TRANSACTION).await?,
            table_lock: client.prepare(sql::TABLE_LOCK).await?,
            pending,
            layout,
            holds_any_text: ["UTF8", "SQL_ASCII"].contains(&encoding.as_str()),
            chunk_rows: AtomicI32::new(found::CHUNK_ROWS),
            client,
        })
    }

    /// Carries out an operation.
    ///
    /// A future for each kind, as large as that kind needs: one for all would be as large as a scan, 9 kB, and be moved for each batch
    /// of verdicts, of which the events of a single strict key bring one for every seven.
    ///
    /// # Errors
    ///
    /// The session with the database is of no more use.
    pub fn perform(self: Arc<Self>, request: Request) -> Operation {
        match request {
            Request::Settle(batch) => Box::pin(async move {
                Ok(match self.settle(&batch).await {
                    Ok(not_written) => Finished::Settled(batch, not_written),
                    Err(error) => Finished::NotSettled(batch, error.failure()?),
                })
            }),
            Request::Snapshot => Box::pin(async move { Ok(Finished::Snapshot(self.current_snapshot().await?)) }),
            Request::Scan(from, scan) => reads(async move { Ok(Finished::Scanned(from, self.pending(scan).await?)) }),
            Request::Due(scan) => reads(async move { Ok(Finished::Due(self.due(scan).await?)) }),
            Request::LookAtPublication => reads(async move { Ok(Finished::Published(self.published().await?)) }),
            Request::EnsurePublication => reads(async move {
                match self.ensure_publication().await {
                    Ok(done) => Ok(Finished::PublicationEnsured((done != "exists").then_some(done))),
                    Err(error) => error.refusal().map(Finished::PublicationRefused).ok_or(error),
                }
            }),
            Request::EnsureSequence => reads(async move { Ok(Finished::Sequence(self.ensure_sequence().await?)) }),
        }
    }

    /// Which transactions are visible now.
    pub async fn current_snapshot(&self) -> Result<Snapshot, StoreError> {
        parse(&self.client.query_one(&self.snapshot, &[]).await?, 0)
    }

    /// Writes verdicts, all or none but those that it says.
    async fn settle(&self, batch: &Batch) -> Result<NotWritten, StoreError> {
        let verdicts = &batch.verdicts;
        let ids: Vec<Uuid> = verdicts.iter().map(|verdict| verdict.id).collect();
        let statuses: Vec<&str> = verdicts.iter().map(|verdict| verdict.status.as_str()).collect();
        let storable: Vec<Option<Cow<'_, str>>> =
            verdicts.iter().map(|verdict| verdict.error.as_deref().map(|error| self.storable(error))).collect();
        let errors: Vec<Option<&str>> = storable.iter().map(Option::as_deref).collect();
        let has_retries = verdicts.iter().any(|verdict| verdict.retry_in.is_some() || verdict.holds_key);
        let of_retries: &[Verdict] = if has_retries { verdicts } else { &[] };
        let retry_ms: Vec<Option<i32>> = of_retries
            .iter()
            .map(|verdict| verdict.retry_in.map(|wait| i32::try_from(wait.as_millis()).unwrap_or(i32::MAX)))
            .collect();
        let holds: Vec<bool> = of_retries.iter().map(|verdict| verdict.holds_key).collect();
        let rows =
            self.client.query(&self.settle, &[&ids, &statuses, &errors, &retry_ms, &holds, &batch.skip_locked]).await?;
        let mut not_written = NotWritten::default();
        for row in &rows {
            let status: Option<&str> = row.try_get("status")?;
            let which = match status {
                Some("PENDING") if batch.skip_locked => &mut not_written.locked,
                Some("PENDING") | None => &mut not_written.missing,
                Some(_) => &mut not_written.finished,
            };
            which.push(row.try_get("id")?);
        }
        Ok(not_written)
    }

    /// What the broker said, as the database can hold it: a verdict must not fail for a name in another script.
    fn storable<'a>(&self, error: &'a str) -> Cow<'a, str> {
        if self.holds_any_text || error.is_ascii() {
            return Cow::Borrowed(error);
        }
        error.chars().map(|char| if char.is_ascii() { char } else { '?' }).collect()
    }

    /// Makes or repairs the publication. Returns what had to be done: `exists`, if nothing.
    async fn ensure_publication(&self) -> Result<String, StoreError> {
        Ok(self.client.query_one(&self.ensure_publication, &[&self.publication]).await?.try_get(0)?)
    }

    /// Looks whether the publication is still the same.
    async fn published(&self) -> Result<Published, StoreError> {
        let row = self.client.query_one(&self.published, &[&self.publication]).await?;
        let (publication, its_writer): (Option<u32>, Option<&str>) = (row.try_get(1)?, row.try_get(2)?);
        let (table, tables_writer): (Option<u32>, Option<&str>) = (row.try_get(3)?, row.try_get(4)?);
        let identity = publication.map(|_| format!("{publication:?} {its_writer:?} {table:?} {tables_writer:?}"));
        let changed_by = [its_writer, tables_writer].into_iter().flatten().map(id).collect::<Result<_, _>>()?;
        // After the snapshot: who has ended in between is seen by the next one.
        Ok(Published { identity, changed_by, snapshot: parse(&row, 0)?, writers: self.writers().await? })
    }

    /// Which transactions have written to the table and have not ended; `None`: this role may not see.
    async fn writers(&self) -> Result<Option<Vec<u32>>, StoreError> {
        match self.client.query(&self.writers, &[]).await {
            Ok(rows) => rows.iter().map(|row| id(row.try_get(0)?)).collect::<Result<_, _>>().map(Some),
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A statement that only reads has no row to be blamed for what may pass.
fn reads(read: impl Future<Output = Result<Finished, StoreError>> + Send + 'static) -> Operation {
    Box::pin(async move {
        match read.await {
            Err(error) if error.is_transient() => Ok(Finished::NotRead(error.failure()?)),
            done => done,
        }
    })
}

/// A transaction's id, as PostgreSQL prints an `xid`.
fn id(text: &str) -> Result<u32, StoreError> {
    text.parse().map_err(|_| StoreError::Answer(format!("{text:?} is no transaction's id")))
}

fn parse<T: FromStr<Err: std::fmt::Display>>(row: &tokio_postgres::Row, place: usize) -> Result<T, StoreError> {
    let text: &str = row.try_get(place)?;
    text.parse().map_err(|error: T::Err| StoreError::Answer(error.to_string()))
}
