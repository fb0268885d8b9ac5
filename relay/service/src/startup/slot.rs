//! The replication slot: found, created, or created again.

use std::fmt;

use pg_replication::{Lsn, ReplError, Replication};
use tokio_postgres::{Client, error::SqlState};
use tracing::{info, warn};

use super::{checks, stream_session, waiting};
use crate::{
    config::Config,
    database::foreign::Listed,
    error::{Kind, RunError},
    repeats::Repeats,
    session::Making,
    store::sql,
};

/// What `init` did to the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// The slot was created, with this consistent point.
    Created(Lsn),
    /// The slot existed already.
    Exists,
    /// The server had invalidated the slot, so it was dropped and created again. Events that are `PENDING` are not
    /// lost.
    Recreated(Lsn),
}

impl fmt::Display for SlotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created(lsn) => write!(f, "created at {lsn}"),
            Self::Exists => f.write_str("exists"),
            Self::Recreated(lsn) => write!(f, "had been invalidated; created again at {lsn}"),
        }
    }
}

/// The state of the slot on the server.
pub(super) enum Found {
    /// There is no slot of this name.
    Nothing,
    /// No process reads the slot.
    Free {
        /// Whether standbys may copy the slot.
        is_copied: bool,
    },
    /// A server process reads the slot, or is creating it.
    Taken(Reader),
    /// The server has removed WAL that the slot needs.
    Invalidated,
}

/// The server process that reads the slot or creates it.
pub(super) struct Reader {
    pub(super) pid: i32,
    pub(super) user: String,
    /// The program's name; `None`: this role may not see it.
    pub(super) application: Option<String>,
}

/// Finds the slot. A slot of the same name that no relay of this database can read is an error.
pub(super) async fn find(config: &Config, client: &Client) -> Result<Found, RunError> {
    let Some(row) = client.query_opt(sql::SLOT, &[&config.slot]).await? else { return Ok(Found::Nothing) };
    let (plugin, here, lost): (Option<&str>, Option<bool>, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let pid: Option<i32> = row.try_get(3)?;
    let listed = Listed {
        name: &config.slot,
        plugin,
        database: row.try_get(5)?,
        is_here: here == Some(true),
        is_temporary: row.try_get(6)?,
        pid,
    };
    if let Some((what, hint)) = listed.refused() {
        return Err(RunError::new(Kind::Slot, what).hint(hint));
    }
    Ok(match pid {
        Some(pid) => Found::Taken(reader(client, pid).await),
        None if lost => Found::Invalidated,
        None => Found::Free { is_copied: row.try_get(4)? },
    })
}

/// The role and program of the server process, as far as this role may see them.
async fn reader(client: &Client, pid: i32) -> Reader {
    let (mut user, mut application) = (String::new(), None);
    if let Ok(Some(row)) = client.query_opt(sql::SESSION, &[&pid]).await {
        (user, application) = (row.try_get(0).unwrap_or_default(), row.try_get(1).unwrap_or_default());
    }
    Reader { pid, user, application }
}

/// Fails unless the slot exists and can be read.
pub(super) fn require(config: &Config, found: &Found) -> Result<(), RunError> {
    match found {
        Found::Free { .. } | Found::Taken(_) => Ok(()),
        Found::Nothing => Err(RunError::new(Kind::Slot, format!("there is no replication slot {:?}", config.slot))
            .hint("run `outbox-relay init`, or let create-slot be true")),
        Found::Invalidated => Err(checks::invalidated(config)),
    }
}

/// What must be done to the slot before it can be read and agrees with the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToDo {
    Nothing,
    /// The slot must be created.
    Make,
    /// Standbys must be permitted to copy the slot.
    LetCopy,
}

/// Creates the slot if it is missing or invalidated.
pub(super) async fn ensure(
    config: &Config,
    client: &Client,
    replication: &mut Replication,
) -> Result<SlotState, RunError> {
    let was_there = !matches!(find(config, client).await?, Found::Nothing);
    let made = match to_do(config, client).await? {
        ToDo::Nothing => None,
        ToDo::LetCopy => match replication.let_standbys_copy(&config.slot).await {
            Ok(()) => None,
            Err(error) => return Err(checks::stream_error(config, client, error).await),
        },
        ToDo::Make => create(config, client, replication).await?,
    };
    Ok(match made {
        Some(lsn) if was_there => SlotState::Recreated(lsn),
        Some(lsn) => SlotState::Created(lsn),
        None => SlotState::Exists,
    })
}

/// What must be done to the slot. Drops an invalidated slot, so that it can be created again.
pub(super) async fn to_do(config: &Config, client: &Client) -> Result<ToDo, RunError> {
    match find(config, client).await? {
        Found::Free { is_copied } if config.failover_slot && !is_copied => Ok(ToDo::LetCopy),
        Found::Free { .. } | Found::Taken(_) => Ok(ToDo::Nothing),
        Found::Nothing => Ok(ToDo::Make),
        Found::Invalidated => {
            warn!(target: "relay", slot = config.slot, "the server has invalidated the slot (see its log): creating it again; events are read from the table");
            drop_unread(config, client).await?;
            Ok(ToDo::Make)
        }
    }
}

/// Longest row that is accepted from the stream, in bytes: the largest payload that `outbox.max_payload_bytes` permits,
/// which is RabbitMQ's default limit (128 MiB), and 16 MiB for the rest of the row.
const LARGEST_INSERT: usize = (128 + 16) << 20;

/// Carries out `to_do`, and then starts the stream at `from`.
pub(super) fn start(config: &Config, mut session: Replication, from: Lsn, to_do: ToDo) -> Making {
    let (pid, slot, publication) = (session.pid(), config.slot.clone(), config.publication.clone());
    let is_copied = config.failover_slot;
    let start = async move {
        match to_do {
            ToDo::Nothing => {}
            ToDo::LetCopy => session.let_standbys_copy(&slot).await?,
            ToDo::Make => match make(&mut session, &slot, is_copied).await {
                Ok(lsn) => info!(target: "relay", slot, %lsn, "created the replication slot"),
                Err(error) if error.slot_exists() => {} // another relay has created it
                Err(error) => return Err(error),
            },
        }
        let mut stream = session.start(&slot, &publication, from).await?;
        stream.limit_inserts(LARGEST_INSERT);
        Ok(stream)
    };
    Making { pid, start: Box::pin(start) }
}

/// Drops a slot that cannot be read any further. The events of its unread part are read from the table.
pub(super) async fn discard(config: &Config, client: &Client) -> Result<(), RunError> {
    if drop_unread(config, client).await? {
        warn!(target: "relay", slot = config.slot, "dropped the slot: a part of what it would read cannot be streamed; events are read from the table");
    }
    Ok(())
}

/// Drops the slot unless somebody reads it. Returns whether it was dropped; another relay may have dropped it or begun
/// to read it.
async fn drop_unread(config: &Config, client: &Client) -> Result<bool, RunError> {
    let dropped = client.execute(sql::DROP_SLOT, &[&config.slot]).await;
    match dropped {
        Err(error) if [Some(&SqlState::UNDEFINED_OBJECT), Some(&SqlState::OBJECT_IN_USE)].contains(&error.code()) => {
            Ok(false)
        }
        dropped => Ok(dropped? > 0),
    }
}

async fn make(session: &mut Replication, slot: &str, is_copied: bool) -> Result<Lsn, ReplError> {
    // A SQL statement starts the server's check of the client, which then continues during the next command. A
    // replication command alone does not start it, so a relay that dies would keep the slot until the older
    // transactions end.
    stream_session::check_client(session).await;
    if is_copied { session.create_failover_slot(slot).await } else { session.create_slot(slot).await }
}

/// Creates the slot; `None`: another relay has created it. Creation waits for every older transaction; after
/// [`waiting::PATIENCE`] the oldest one is logged.
async fn create(config: &Config, client: &Client, replication: &mut Replication) -> Result<Option<Lsn>, RunError> {
    let mut waits = Repeats::default();
    let creation = make(replication, &config.slot, config.failover_slot);
    tokio::pin!(creation);
    loop {
        tokio::select! {
            created = &mut creation => return match created {
                Err(error) if error.slot_exists() => Ok(None),
                Err(error) => Err(checks::stream_error(config, client, error).await),
                Ok(lsn) => Ok(Some(lsn)),
            },
            () = tokio::time::sleep(waiting::PATIENCE) => waiting::oldest_transaction(client, &mut waits).await,
        }
    }
}
