//! The replication slot: found, made, or made anew.

use std::{fmt, time::Duration};

use pg_replication::{ConnInfo, Lsn, Replication};
use tokio_postgres::{Client, error::SqlState};
use tracing::{debug, info, warn};

use super::{checks, waiting};
use crate::{
    config::Config,
    error::{Kind, RunError, chain},
    outbox::sql,
    repeats::Repeats,
};

/// What became of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Made now, with this consistent point.
    Created(Lsn),
    /// It was there.
    Exists,
    /// The server had invalidated it; dropped and made anew. Rows that are `PENDING` lose nothing by it.
    Recreated(Lsn),
}

impl fmt::Display for SlotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created(lsn) => write!(f, "created at {lsn}"),
            Self::Exists => f.write_str("exists"),
            Self::Recreated(lsn) => write!(f, "had been invalidated; created anew at {lsn}"),
        }
    }
}

/// What the server knows of the slot.
pub(super) enum Found {
    Nothing,
    /// Nobody reads it.
    Free,
    /// Somebody reads it, or is making it.
    Taken(Holder),
    /// The log that it needs is gone.
    Invalidated,
}

/// Who has the slot: a server process, its role, and its program's name, which only some may see.
pub(super) struct Holder {
    pub(super) pid: i32,
    pub(super) user: String,
    pub(super) application: Option<String>,
}

/// Looks for the slot.
pub(super) async fn find(config: &Config, client: &Client) -> Result<Found, RunError> {
    let Some(row) = client.query_opt(sql::SLOT, &[&config.slot]).await? else { return Ok(Found::Nothing) };
    let (plugin, here, lost): (Option<&str>, Option<bool>, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let (pid, user, application): (Option<i32>, _, _) = (row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
    // While a slot is being made it has no plugin for a moment.
    let is_ours = here == Some(true) && (plugin == Some("pgoutput") || (plugin == Some("") && pid.is_some()));
    if !is_ours {
        let what = format!("the slot {:?} is not a pgoutput slot of this database", config.slot);
        return Err(RunError::new(Kind::Slot, what).hint("choose another name with --slot, or drop that slot"));
    }
    Ok(match pid {
        Some(pid) => Found::Taken(Holder { pid, user, application }),
        None if lost => Found::Invalidated,
        None => Found::Free,
    })
}

/// Where a stream begins that is to leave out all that is in the log now. What it leaves out stands in the table.
pub(super) async fn behind_the_log(client: &Client) -> Result<Lsn, RunError> {
    let lsn: String = client.query_one(sql::FLUSHED, &[]).await?.try_get(0)?;
    warn!(target: "relay", lsn, "the server cannot stream what is in its log: going on behind it; events are read from the table");
    lsn.parse().map_err(|error| RunError::new(Kind::Database, "the position in the log cannot be read").source(error))
}

/// The slot must be there.
pub(super) fn require(config: &Config, found: &Found) -> Result<(), RunError> {
    match found {
        Found::Free | Found::Taken(_) => Ok(()),
        Found::Nothing => Err(RunError::new(Kind::Slot, format!("there is no replication slot {:?}", config.slot))
            .hint("run `outbox-relay init`, or let create-slot be true")),
        Found::Invalidated => Err(checks::invalidated(config)),
    }
}

/// Makes the slot if it is missing or lost. `waits` is told what keeps it waiting.
pub(super) async fn ensure(
    config: &Config,
    client: &Client,
    replication: &mut Replication,
    waits: impl Fn(String),
) -> Result<SlotState, RunError> {
    match find(config, client).await? {
        Found::Free | Found::Taken(_) => Ok(SlotState::Exists),
        Found::Nothing => match create(config, client, replication, waits).await? {
            Some(lsn) => {
                info!(target: "relay", slot = config.slot, %lsn, "created the replication slot");
                Ok(SlotState::Created(lsn))
            }
            None => Ok(SlotState::Exists),
        },
        Found::Invalidated => {
            warn!(target: "relay", slot = config.slot, "the server has invalidated the slot (see its log): making it anew; events are read from the table");
            drop_unread(config, client).await?;
            Ok(create(config, client, replication, waits).await?.map_or(SlotState::Exists, SlotState::Recreated))
        }
    }
}

/// Drops a slot that cannot be read on. What it would have brought stands in the table.
pub(super) async fn discard(config: &Config, client: &Client) -> Result<(), RunError> {
    if drop_unread(config, client).await? {
        warn!(target: "relay", slot = config.slot, "dropped the slot: a part of what it would read cannot be streamed; events are read from the table");
    }
    Ok(())
}

/// Drops the slot unless somebody reads it. Says whether it did: another relay can be quicker at either.
async fn drop_unread(config: &Config, client: &Client) -> Result<bool, RunError> {
    let dropped = client.execute(sql::DROP_SLOT, &[&config.slot]).await;
    match dropped {
        Err(error) if [Some(&SqlState::UNDEFINED_OBJECT), Some(&SqlState::OBJECT_IN_USE)].contains(&error.code()) => {
            Ok(false)
        }
        dropped => Ok(dropped? > 0),
    }
}

/// Opens a session that can make the slot, and read it.
pub(super) async fn connect(config: &Config, server: &ConnInfo, client: &Client) -> Result<Replication, RunError> {
    let mut replication = server
        .connect_replication(&config.application_name)
        .await
        .map_err(|error| checks::replication_connect_error(error, &config.database_url))?;
    let millis = silence(config, client).await?.as_millis().to_string();
    replication.set("wal_sender_timeout", &millis).await.map_err(|error| checks::stream_error(config, error))?;
    // What the role's settings say is meant for statements. Making a slot waits for locks of all older transactions, and a large
    // transaction is streamed within one.
    for timeout in ["lock_timeout", "statement_timeout", "transaction_timeout"] {
        if let Err(error) = replication.set(timeout, "0").await {
            debug!(target: "relay", error = chain(&error), "the server does not know the timeout"); // the last one is new in PostgreSQL 17
        }
    }
    if let Err(error) = replication.set("client_connection_check_interval", "500").await {
        debug!(target: "relay", error = chain(&error), "the server cannot tell whether this relay lives while the slot is made");
    }
    Ok(replication)
}

/// What the slot has confirmed: where its stream begins.
pub(super) async fn confirmed(config: &Config, client: &Client) -> Result<Lsn, RunError> {
    let Some(row) = client.query_opt(sql::CONFIRMED, &[&config.slot]).await? else { return Ok(Lsn(0)) };
    let confirmed: Option<&str> = row.try_get(0)?;
    Ok(confirmed.and_then(|lsn| lsn.parse().ok()).unwrap_or_default())
}

/// How long the server bears a stream's reader that says nothing: its own `wal_sender_timeout`, or less.
pub(super) async fn silence(config: &Config, client: &Client) -> Result<Duration, RunError> {
    let millis: i32 = client.query_one(sql::WAL_SENDER_TIMEOUT, &[]).await?.try_get(0)?;
    let own = u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Duration::from_millis);
    Ok(own.map_or(config.takeover_after, |own| own.min(config.takeover_after)))
}

/// Making a slot waits for every transaction that is older: says which, when it takes long. `None`: another relay was
/// quicker.
async fn create(
    config: &Config,
    client: &Client,
    replication: &mut Replication,
    waits: impl Fn(String),
) -> Result<Option<Lsn>, RunError> {
    let mut told = Repeats::default();
    let creation = replication.create_slot(&config.slot);
    tokio::pin!(creation);
    loop {
        tokio::select! {
            created = &mut creation => return match created {
                Err(error) if error.slot_exists() => Ok(None),
                created => created.map(Some).map_err(|error| checks::stream_error(config, error)),
            },
            () = tokio::time::sleep(waiting::PATIENCE) => {
                if let Some(sentence) = waiting::oldest_transaction(client, &mut told).await? {
                    waits(sentence);
                }
            }
        }
    }
}
