//! The replication slot: found, made, or made anew.

use std::{
    fmt,
    time::{Duration, Instant},
};

use tokio_postgres::Client;
use tracing::{debug, info, warn};

use super::checks;
use crate::{
    config::Config,
    error::{Kind, RunError},
    lsn::Lsn,
    postgres::{Database, ReplError, ReplicationStream},
};

/// How long the server may take to make a slot before the relay says what it waits for.
const CREATE_PATIENCE: Duration = Duration::from_secs(2);

/// How often a slot that is still in use is asked for again.
const IN_USE_PAUSE: Duration = Duration::from_millis(100);
/// How long: the default of `wal_sender_timeout`, for a walsender of some other program's.
const IN_USE_PATIENCE: Duration = Duration::from_secs(60);

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

enum Found {
    Nothing,
    Usable,
    Invalidated,
}

/// The slot must be there.
pub(super) async fn require(config: &Config, client: &Client) -> Result<(), RunError> {
    match find(config, client).await? {
        Found::Usable => Ok(()),
        Found::Nothing => Err(RunError::new(Kind::Slot, format!("there is no replication slot {:?}", config.slot))
            .hint("run `outbox-relay init`, or let create-slot be true")),
        Found::Invalidated => Err(invalidated(config)),
    }
}

/// Makes the slot if it is missing or lost.
pub(super) async fn ensure(config: &Config, database: &Database, client: &Client) -> Result<SlotState, RunError> {
    match find(config, client).await? {
        Found::Usable => Ok(SlotState::Exists),
        Found::Nothing => {
            let lsn = create(config, database, client).await?;
            info!(target: "relay", slot = config.slot, %lsn, "created the replication slot");
            Ok(SlotState::Created(lsn))
        }
        Found::Invalidated => {
            warn!(target: "relay", slot = config.slot, "the server has invalidated the slot (max_slot_wal_keep_size): making it anew; events are read from the table");
            client
                .execute("SELECT pg_catalog.pg_drop_replication_slot($1)", &[&config.slot])
                .await
                .map_err(checks::sql_error)?;
            Ok(SlotState::Recreated(create(config, database, client).await?))
        }
    }
}

/// Drops a slot that cannot be read on. What it would have brought stands in the table.
pub(super) async fn discard(config: &Config, client: &Client) -> Result<(), RunError> {
    let dropped = client
        .execute(
            "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots
             WHERE slot_name = $1 AND NOT active",
            &[&config.slot],
        )
        .await
        .map_err(checks::sql_error)?;
    if dropped > 0 {
        warn!(target: "relay", slot = config.slot, "dropped the slot: the publication was missing for a part of what it would read");
    }
    Ok(())
}

/// Starts the stream from where the slot has confirmed.
///
/// The walsender of a relay that has just died can live on for a moment, at most its `wal_sender_timeout`: it is waited
/// for, since this relay holds the lock and so the other is dead. `None`: there is no such slot.
pub(super) async fn stream(
    config: &Config,
    database: &Database,
    wal_sender_timeout: Duration,
) -> Result<Option<ReplicationStream>, RunError> {
    let deadline = Instant::now() + IN_USE_PATIENCE.max(2 * wal_sender_timeout);
    let mut waits = false;
    loop {
        let mut replication = database
            .connect_replication(&config.application_name)
            .await
            .map_err(|error| checks::connect_error(error, database))?;
        let millis = wal_sender_timeout.as_millis().to_string();
        replication.set("wal_sender_timeout", &millis).await.map_err(|error| stream_error(config, error))?;
        // The server moves a position before the confirmed one forward.
        match replication.start(&config.slot, &config.publication, Lsn(0)).await {
            Err(error) if error.slot_in_use() && Instant::now() < deadline => {
                if !waits {
                    waits = true;
                    info!(target: "relay", %error, "the slot is still in use: waiting until the server lets go of it");
                }
                tokio::time::sleep(IN_USE_PAUSE).await;
            }
            Err(error) if error.slot_missing() => return Ok(None),
            started => return started.map(Some).map_err(|error| stream_error(config, error)),
        }
    }
}

async fn find(config: &Config, client: &Client) -> Result<Found, RunError> {
    let row = client
        .query_opt(
            "SELECT plugin::text, database = pg_catalog.current_database(), coalesce(wal_status = 'lost', false)
             FROM pg_catalog.pg_replication_slots WHERE slot_name = $1",
            &[&config.slot],
        )
        .await
        .map_err(checks::sql_error)?;
    let Some(row) = row else { return Ok(Found::Nothing) };
    let read = || Ok::<_, tokio_postgres::Error>((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    let (plugin, here, lost): (Option<&str>, Option<bool>, bool) = read().map_err(checks::sql_error)?;
    if plugin != Some("pgoutput") || here != Some(true) {
        let what = format!("the slot {:?} is not a pgoutput slot of this database", config.slot);
        return Err(RunError::new(Kind::Slot, what).hint("choose another name with --slot, or drop that slot"));
    }
    Ok(if lost { Found::Invalidated } else { Found::Usable })
}

/// Making a slot waits for every transaction that is older: says which, when it takes long.
async fn create(config: &Config, database: &Database, client: &Client) -> Result<Lsn, RunError> {
    let mut replication = database
        .connect_replication(&config.application_name)
        .await
        .map_err(|error| checks::connect_error(error, database))?;
    if let Err(error) = replication.set("client_connection_check_interval", "500").await {
        debug!(target: "relay", %error, "the server cannot tell whether this relay lives while the slot is made");
    }
    let creation = replication.create_slot(&config.slot);
    tokio::pin!(creation);
    loop {
        tokio::select! {
            created = &mut creation => return created.map_err(|error| stream_error(config, error)),
            () = tokio::time::sleep(CREATE_PATIENCE) => log_what_it_waits_for(client).await?,
        }
    }
}

async fn log_what_it_waits_for(client: &Client) -> Result<(), RunError> {
    let row = client
        .query_opt(
            "SELECT pid, coalesce(usename, '')::text, coalesce(application_name, ''), coalesce(state, ''),
                    extract(epoch FROM clock_timestamp() - xact_start)::bigint
             FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL
             ORDER BY pg_catalog.age(backend_xid) DESC LIMIT 1",
            &[],
        )
        .await
        .map_err(checks::sql_error)?;
    let Some(row) = row else { return Ok(()) };
    let read = || {
        Ok::<_, tokio_postgres::Error>((
            row.try_get(0)?,
            row.try_get(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
            row.try_get(4)?,
        ))
    };
    let (pid, user, application, state, seconds): (i32, &str, &str, &str, Option<i64>) =
        read().map_err(checks::sql_error)?;
    info!(target: "relay", pid, user, application, state, seconds, "making the slot waits for an older transaction to end");
    Ok(())
}

/// What a failure of the replication connection means for the operator.
fn stream_error(config: &Config, error: ReplError) -> RunError {
    let slot = &config.slot;
    if error.slot_in_use() {
        RunError::new(Kind::Slot, format!("the slot {slot:?} is in use"))
            .hint("another program reads it, or the server has not noticed yet that an earlier relay is gone (wal_sender_timeout)")
            .source(error)
    } else if error.slot_invalidated() {
        invalidated(config).source(error)
    } else if error.connection_lost() {
        RunError::new(Kind::Database, "lost the database while starting the stream").source(error)
    } else {
        let hint = "check max_replication_slots and max_wal_senders, and the server's log";
        RunError::new(Kind::Slot, format!("cannot stream from the slot {slot:?}")).hint(hint).source(error)
    }
}

fn invalidated(config: &Config) -> RunError {
    RunError::new(Kind::Slot, format!("the server has invalidated the slot {:?}", config.slot))
        .hint("drop it and run `outbox-relay init`: events that are PENDING are read from the table, none is lost")
}
