//! The replication slot: found, created, or created again.

use std::{fmt, time::Duration};

use pg_replication::{ConnInfo, Lsn, ReplError, Replication};
use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, error::SqlState};
use tracing::{debug, info, warn};

use super::{After, checks, waiting};
use crate::{
    config::Config,
    database::{errors::replication_connect_error, foreign::Listed, platform::Platform},
    error::{Kind, RunError, chain},
    repeats::Repeats,
    session::Making,
    store::sql,
};

/// How often the server checks whether this relay is alive while a command waits.
const CLIENT_CHECK: &str = "client_connection_check_interval";
const CLIENT_CHECK_MS: &str = "500";

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

/// Above this number of unread bytes, which contain thousands of events, the stream begins behind the present WAL. The
/// first pass publishes the events before the stream reaches them: for 100,000 single commits, streaming took the
/// server 0.36 s and skipping 0.05 s (measured on PostgreSQL 15).
const LONG_LOG: i64 = 32 << 20;

/// The position behind all present WAL, for a stream that must leave it out. Its events are read from the table.
pub(super) async fn behind_the_log(client: &Client, after: After) -> Result<Lsn, RunError> {
    let lsn: String = client.query_one(sql::FLUSHED, &[]).await?.try_get(0)?;
    if after == After::PublishedAgain {
        info!(target: "relay", lsn, "the publication publishes every event again: streaming from here on; what came before is read from the table");
    } else {
        warn!(target: "relay", lsn, "the server cannot stream what is in its WAL: going on behind it; events are read from the table");
    }
    position(&lsn)
}

/// How long the startup waits for transactions whose commits in a long WAL may not be visible yet.
const UNSEEN: Duration = Duration::from_secs(1);

/// The position behind the present WAL, if its unread part is long and every commit in it is visible in the table;
/// otherwise 0, and all WAL is streamed.
///
/// A commit is in the WAL before it is visible, so all transactions open at the position must end before the pass
/// begins; otherwise both the stream and the pass would miss it. A role that may not see the WAL's length streams all
/// of it.
pub(super) async fn behind_a_long_log(config: &Config, client: &Client) -> Result<Lsn, RunError> {
    match look_behind_a_long_log(config, client).await {
        Err(error) if error.kind() == Kind::NotPermitted => {
            debug!(target: "relay", %error, "how much of the WAL is unread is not to be seen: streaming all of it");
            Ok(Lsn(0))
        }
        looked => looked,
    }
}

async fn look_behind_a_long_log(config: &Config, client: &Client) -> Result<Lsn, RunError> {
    let Some(row) = client.query_opt(sql::UNREAD, &[&config.slot]).await? else { return Ok(Lsn(0)) };
    let (lsn, unread): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
    if unread < LONG_LOG {
        return Ok(Lsn(0));
    }
    let next: String = client.query_one(sql::TAKE_ID, &[]).await?.try_get(0)?;
    let until = Instant::now() + UNSEEN;
    while !client.query_one(sql::ALL_HAVE_ENDED_BEFORE, &[&next]).await?.try_get::<_, bool>(0)? {
        if Instant::now() > until {
            info!(target: "relay", slot = config.slot, unread, "much of the WAL is unread, and an older transaction is open: streaming all of it");
            return Ok(Lsn(0));
        }
        sleep(Duration::from_millis(20)).await;
    }
    info!(target: "relay", slot = config.slot, lsn, unread, "much of the WAL is unread: going on behind it; events are read from the table");
    position(&lsn)
}

fn position(lsn: &str) -> Result<Lsn, RunError> {
    lsn.parse().map_err(|error| RunError::new(Kind::Database, "the position in the WAL cannot be read").source(error))
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

/// Opens a replication session, which can create the slot and read it.
pub(super) async fn connect(config: &Config, server: &ConnInfo, client: &Client) -> Result<Replication, RunError> {
    let database = &config.database_url;
    let mut replication = match server.connect_replication(&config.application_name).await {
        Ok(replication) => replication,
        Err(error) => return Err(replication_connect_error(error, database, Platform::of(client).await)),
    };
    let millis = silence(config, client).await?.as_millis().to_string();
    if let Err(error) = replication.set("wal_sender_timeout", &millis).await {
        if error.connection_lost() || error.sqlstate().is_none() {
            return Err(checks::stream_error(config, client, error).await);
        }
        debug!(target: "relay", error = chain(&error), "the server keeps its own wal_sender_timeout");
    }
    // The role's time limits are meant for ordinary statements. Creating a slot waits for locks of all older
    // transactions, and a whole large transaction is streamed within one statement.
    for timeout in ["lock_timeout", "statement_timeout", "transaction_timeout"] {
        if let Err(error) = replication.set(timeout, "0").await {
            // transaction_timeout is new in PostgreSQL 17.
            debug!(target: "relay", error = chain(&error), "the server does not know the timeout");
        }
    }
    if let Err(error) = replication.set(CLIENT_CHECK, CLIENT_CHECK_MS).await {
        debug!(target: "relay", error = chain(&error), "the server cannot tell whether this relay lives while the slot is made");
    }
    Ok(replication)
}

/// The position that the slot has confirmed, where its stream begins; 0: there is no slot yet.
pub(super) async fn confirmed(config: &Config, client: &Client) -> Result<Lsn, RunError> {
    let Some(row) = client.query_opt(sql::CONFIRMED, &[&config.slot]).await? else { return Ok(Lsn(0)) };
    let confirmed: Option<&str> = row.try_get(0)?;
    Ok(confirmed.and_then(|lsn| lsn.parse().ok()).unwrap_or_default())
}

/// The stream's `wal_sender_timeout`: the server's own, but at most `takeover_after`, so that a standby takes over in
/// time. Where this role may not see the server's, `takeover_after` is used.
pub(super) async fn silence(config: &Config, client: &Client) -> Result<Duration, RunError> {
    let millis: i32 = match client.query_one(sql::WAL_SENDER_TIMEOUT, &[]).await {
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => 0,
        found => found?.try_get(0)?,
    };
    let own = u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Duration::from_millis);
    Ok(own.map_or(config.takeover_after, |own| own.min(config.takeover_after)))
}

async fn make(session: &mut Replication, slot: &str, is_copied: bool) -> Result<Lsn, ReplError> {
    // A SQL statement starts the server's check of the client, which then continues during the next command. A
    // replication command alone does not start it, so a relay that dies would keep the slot until the older
    // transactions end.
    if let Err(error) = session.set(CLIENT_CHECK, CLIENT_CHECK_MS).await {
        debug!(target: "relay", error = chain(&error), "the server cannot tell whether this relay lives while the slot is made");
    }
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
