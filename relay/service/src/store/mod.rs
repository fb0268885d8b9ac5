//! The outbox in the database: the rows of its table, and the service's SQL statements.

mod blocker;
mod error;
mod found;
mod row;
mod scan;
pub(crate) mod sequence;
mod settle;
mod slot;
pub mod sql;

use std::{
    future::Future,
    pin::Pin,
    str::FromStr,
    sync::{Arc, atomic::AtomicI32},
    time::{SystemTime, UNIX_EPOCH},
};

use outbox_core::{Doubts, Finished, InDoubt, Published, Request, Snapshot};
use tokio_postgres::{Client, Statement, error::SqlState, types::ToSql};
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

/// Most events in doubt that a session learns of; a relay tells no more apart.
const MOST_IN_DOUBT: i32 = 100_000;

/// A running table operation.
pub type Operation = Pin<Box<dyn Future<Output = Result<Finished, StoreError>> + Send>>;

/// The relay's one SQL connection, and its prepared statements.
#[derive(Debug)]
pub struct Store {
    client: Client,
    publication: String,
    /// The name under which this relay and its predecessors publish; empty: the sink does not read back.
    publisher: String,
    snapshot: Statement,
    flushed: Statement,
    flush: Statement,
    pending_page: Statement,
    pending_page_by_bytes: Statement,
    key_holders: Statement,
    due_page: Statement,
    next_due: Statement,
    settle: Statement,
    keep_in_doubt: Statement,
    ensure_publication: Statement,
    ensure_sequence: Statement,
    published: Statement,
    writers: Statement,
    slot: Statement,
    oldest_transaction: Statement,
    table_lock: Statement,
    layout: Layout,
    /// Whether the database's encoding can represent any text.
    stores_any_text: bool,
    /// Most rows that one query of a scan asks for.
    query_rows: AtomicI32,
}

impl Store {
    /// Prepares the statements.
    pub async fn prepare(client: Client, publication: &str) -> Result<Self, StoreError> {
        let columns = Layout::columns();
        let pending_page_by_bytes = client.prepare(&sql::pending_page_by_bytes(&columns)).await?;
        let layout = Layout::new(pending_page_by_bytes.columns().iter().map(|column| column.name()))?;
        if let Err(error) = client.batch_execute(sql::PATIENCE_WITH_LOCKS).await {
            debug!(target: "relay", error = chain(&error), "statements wait for locks as long as the role's settings say");
        }
        let encoding: String = client.query_one(sql::ENCODING, &[]).await?.try_get(0)?;
        Ok(Self {
            publication: publication.to_owned(),
            publisher: String::new(),
            snapshot: client.prepare(sql::SNAPSHOT).await?,
            flushed: client.prepare(sql::FLUSHED).await?,
            flush: client.prepare(sql::FLUSH).await?,
            pending_page: client.prepare(&sql::pending_page(&columns)).await?,
            due_page: client.prepare(&sql::due_page(&columns)).await?,
            next_due: client.prepare(sql::NEXT_DUE).await?,
            key_holders: client.prepare(sql::KEY_HOLDERS).await?,
            settle: client.prepare(sql::SETTLE).await?,
            keep_in_doubt: client.prepare(sql::KEEP_IN_DOUBT).await?,
            ensure_publication: client.prepare(sql::ENSURE_PUBLICATION).await?,
            ensure_sequence: client.prepare(sql::ENSURE_SEQUENCE).await?,
            published: client.prepare(sql::PUBLISHED).await?,
            writers: client.prepare(sql::WRITERS).await?,
            slot: client.prepare(sql::SLOT_KEEPS).await?,
            oldest_transaction: client.prepare(sql::OLDEST_TRANSACTION).await?,
            table_lock: client.prepare(sql::TABLE_LOCK).await?,
            pending_page_by_bytes,
            layout,
            stores_any_text: ["UTF8", "SQL_ASCII"].contains(&encoding.as_str()),
            query_rows: AtomicI32::new(found::QUERY_ROWS),
            client,
        })
    }

    /// Carries out a table operation.
    ///
    /// Each kind has a future of its own size. A common future would have a scan's size, 9 kB, and be moved for each
    /// batch of verdicts, of which a single strict key brings one for every seven events.
    ///
    /// # Errors
    ///
    /// An error after which the session with the database must end.
    pub fn perform(self: Arc<Self>, request: Request) -> Operation {
        match request {
            Request::Settle(batch) => Box::pin(async move {
                Ok(match self.settle(&batch).await {
                    Ok(not_written) => Finished::Settled(batch, not_written),
                    Err(error) => Finished::NotSettled(batch, self.failure_to_settle(error).await?),
                })
            }),
            Request::Keep(doubts) => Box::pin(async move {
                Ok(match self.keep(&doubts).await {
                    Ok(()) => Finished::Kept(doubts),
                    Err(error) => match error.refusal() {
                        Some(error) => Finished::NotKept { is_transient: false, error },
                        None => Finished::NotKept { is_transient: true, error: error.failure()?.error },
                    },
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

    /// The current snapshot: which transactions are visible.
    pub async fn current_snapshot(&self) -> Result<Snapshot, StoreError> {
        parse(&self.client.query_one(&self.snapshot, &[]).await?, 0)
    }

    /// The current snapshot. Every transaction that has written until now, and is not visible, is among its running
    /// ones.
    pub async fn snapshot_of_all(&self) -> Result<Snapshot, StoreError> {
        self.client.query_one(sql::TAKE_ID, &[]).await?;
        self.current_snapshot().await
    }

    /// The time of the last verdict by the relay's clock, in microseconds since the Unix epoch; `None`: nothing tells.
    pub async fn last_settled(&self) -> Result<Option<i64>, StoreError> {
        let age: Option<i64> = self.client.query_one(sql::LAST_SETTLED, &[]).await?.try_get(0)?;
        let now_us = now_us();
        Ok(age.map(|age| now_us.saturating_sub(age)))
    }

    /// What the relays that publish under this name have kept: the floor, in microseconds since the Unix epoch, and
    /// events that are still pending. From now on this relay keeps it under that name, too.
    pub async fn take_over(&mut self, publisher: &str) -> Result<(Option<i64>, Vec<InDoubt>), StoreError> {
        publisher.clone_into(&mut self.publisher);
        let rows = self.client.query(sql::IN_DOUBT, &[&publisher, &MOST_IN_DOUBT]).await?;
        let now_us = now_us();
        let (mut floor_us, mut in_doubt) = (None, Vec::with_capacity(rows.len()));
        for row in &rows {
            let (replays, age): (i32, i64) = (row.try_get(1)?, row.try_get(2)?);
            let since_us = now_us.saturating_sub(age);
            match u32::try_from(replays) {
                Ok(replays) => {
                    let (id, is_delivered) = (row.try_get(0)?, row.try_get(3)?);
                    in_doubt.push(InDoubt { id, replays, since_us, is_delivered });
                }
                Err(_) => floor_us = Some(since_us),
            }
        }
        Ok((floor_us, in_doubt))
    }

    async fn keep(&self, doubts: &Doubts) -> Result<(), StoreError> {
        let Doubts { events, floor_us } = doubts;
        let now_us = now_us();
        let age = |us: i64| now_us.saturating_sub(us);
        let ids: Vec<Uuid> = events.iter().map(|event| event.id).collect();
        let replays: Vec<i32> = events.iter().map(|event| i32::try_from(event.replays).unwrap_or(i32::MAX)).collect();
        let ages: Vec<i64> = events.iter().map(|event| age(event.since_us)).collect();
        let are_delivered: Vec<bool> = events.iter().map(|event| event.is_delivered).collect();
        let floor_age = floor_us.map(age);
        let arguments: [&(dyn ToSql + Sync); 6] = [&self.publisher, &ids, &replays, &ages, &are_delivered, &floor_age];
        self.client.execute(&self.keep_in_doubt, &arguments).await?;
        Ok(())
    }

    /// Creates or repairs the publication. Returns what was done; `exists`: nothing.
    async fn ensure_publication(&self) -> Result<String, StoreError> {
        Ok(self.client.query_one(&self.ensure_publication, &[&self.publication]).await?.try_get(0)?)
    }

    /// The publication's identity, which changes with the publication, and a snapshot taken with it.
    async fn published(&self) -> Result<Published, StoreError> {
        let row = self.client.query_one(&self.published, &[&self.publication]).await?;
        let (publication, its_writer): (Option<u32>, Option<&str>) = (row.try_get(1)?, row.try_get(2)?);
        let (table, tables_writer): (Option<u32>, Option<&str>) = (row.try_get(3)?, row.try_get(4)?);
        let identity = publication.map(|_| format!("{publication:?} {its_writer:?} {table:?} {tables_writer:?}"));
        let changed_by = [its_writer, tables_writer].into_iter().flatten().map(id).collect::<Result<_, _>>()?;
        // The writers are read after the snapshot; transactions that end in between are visible in the next snapshot.
        let writers = self.writers().await?;
        // Where they cannot be seen, the snapshot stands for them.
        let snapshot = if writers.is_some() { parse(&row, 0)? } else { self.snapshot_of_all().await? };
        Ok(Published { identity, changed_by, snapshot, writers })
    }

    /// Ids of the open transactions that have written to the table; `None`: this role may not see them.
    async fn writers(&self) -> Result<Option<Vec<u32>>, StoreError> {
        match self.client.query(&self.writers, &[]).await {
            Ok(rows) => rows.iter().map(|row| id(row.try_get(0)?)).collect::<Result<_, _>>().map(Some),
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Runs an operation that writes no verdicts. No row can be the cause of its transient errors, so they become
/// [`Finished::NotRead`], after which the core tries again.
fn reads(read: impl Future<Output = Result<Finished, StoreError>> + Send + 'static) -> Operation {
    Box::pin(async move {
        match read.await {
            Err(error) if error.is_transient() => Ok(Finished::NotRead(error.failure()?)),
            done => done,
        }
    })
}

/// The time by the clock on the wall, in microseconds since the Unix epoch.
fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    i64::try_from(now).unwrap_or(i64::MAX)
}

/// Reads a transaction's id in the form in which PostgreSQL prints an `xid`.
fn id(text: &str) -> Result<u32, StoreError> {
    text.parse().map_err(|_| StoreError::Answer(format!("{text:?} is no transaction's id")))
}

fn parse<T: FromStr<Err: std::fmt::Display>>(row: &tokio_postgres::Row, place: usize) -> Result<T, StoreError> {
    let text: &str = row.try_get(place)?;
    text.parse().map_err(|error: T::Err| StoreError::Answer(error.to_string()))
}
