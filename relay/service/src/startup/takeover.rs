//! Takes the slot over: one relay reads it, and the others wait as standbys, connected.
//!
//! The slot is the lock: the server lets only one session read it, of a role that may replicate. Two streams therefore
//! never run at once, and nobody without that right can block the relays.

use std::time::{Duration, Instant};

use pg_replication::{ConnInfo, Lsn, Replication};
use tokio_postgres::Client;
use tracing::info;

use super::{
    checks,
    publication::{self, Publication},
    slot::{self, Found, Reader, ToDo},
    start_position, stream_session, waiting,
};
use crate::{
    config::Config,
    error::{Kind, RunError},
    observe::{Observed, Phase},
    repeats::Repeats,
    session::Source,
    store::sql,
    time::age,
};

/// Pause between two checks of a standby whether the slot is free. It does not try `START_REPLICATION`, which would
/// write an error into the server's log each time.
const PAUSE: Duration = Duration::from_millis(200);

/// The start position of a stream that brings no events. The stream keeps the slot and advances it, but the server does
/// not use the publication for WAL that is skipped.
const NOWHERE: Lsn = Lsn(u64::MAX);

/// Only after this time is a reader of the slot taken for another relay. The server needs a moment to notice that the
/// reader of an ended stream is gone.
const MOMENT: Duration = Duration::from_millis(500);

/// This relay's wait for the slot; it outlives a lost connection.
#[derive(Debug, Default)]
pub(super) struct Takeover {
    /// When the wait began.
    since: Option<Instant>,
    is_standby: bool,
    /// The server process of this relay's earlier stream.
    own: Option<i32>,
    is_own_logged: bool,
}

impl Takeover {
    pub(super) fn new(own: Option<i32>) -> Self {
        Self { own, ..Self::default() }
    }

    /// Whether another relay was seen to read the slot.
    pub(super) fn is_standby(&self) -> bool {
        self.is_standby
    }

    fn wait_for(&mut self, reader: &Reader, config: &Config) {
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.is_standby || since.elapsed() < MOMENT {
            return;
        }
        let Reader { pid, user, application } = reader;
        if self.own == Some(*pid) {
            if !self.is_own_logged {
                self.is_own_logged = true;
                info!(target: "relay", pid, "the server has not noticed yet that this relay's last stream has ended: waiting");
            }
            return;
        }
        self.is_standby = true;
        let slot = &config.slot;
        match application {
            Some(other) if *other != config.application_name => {
                info!(target: "relay", state = %"standby", slot, pid, user, application = other, "another program reads this slot, perhaps a relay of that name: waiting to take over");
            }
            _ => {
                info!(target: "relay", state = %"standby", slot, pid, user, "another relay works for this slot: waiting to take over");
            }
        }
    }

    fn log_success(&self) {
        if self.is_standby {
            let waited = self.since.map(|since| since.elapsed()).unwrap_or_default();
            info!(target: "relay", waited = age(waited), "the other relay is gone: taking over");
        }
    }
}

/// Waits until nobody reads the slot, creates publication and slot if they are missing, and starts the stream.
///
/// The stream begins at `from`, at the slot's confirmed position or behind a long WAL, whichever is latest. If creating
/// the slot takes long, it continues beside the session.
///
/// A standby has no replication connection, so it uses none of `max_wal_senders`.
pub(super) async fn take(
    config: &Config,
    client: &Client,
    server: &ConnInfo,
    replication: Replication,
    from: Lsn,
    takeover: &mut Takeover,
    observed: &Observed,
) -> Result<(Source, Publication), RunError> {
    let mut replication = Some(replication);
    let mut has_waited = false;
    loop {
        let found = slot::find(config, client).await?;
        if let Found::Taken(reader) = &found {
            (replication, has_waited) = (None, true);
            takeover.wait_for(reader, config);
            if takeover.is_standby() {
                observed.enters(Phase::Standby);
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        if has_waited {
            // The extension may have been upgraded or dropped during the wait.
            checks::extension(client, &config.database_url).await?;
            has_waited = false;
        }
        let session = match replication.take() {
            Some(session) => session,
            None => stream_session::connect(config, &same_server(config, server)?, client).await?,
        };
        waiting::for_table(client, sql::READ_TABLE, &[]).await?;
        let (to_do, publication) = if config.create_slot {
            let publication = publication::ensure_if_permitted(config, client).await?;
            (slot::to_do(config, client).await?, publication)
        } else {
            slot::require(config, &found)?;
            (ToDo::Nothing, Publication::Whole { is_repairable: false })
        };
        let from = match &publication {
            Publication::Useless(_) => NOWHERE,
            Publication::Whole { .. } if to_do == ToDo::Make => from,
            Publication::Whole { .. } => from.max(start_position::behind_a_long_log(config, client).await?),
        };
        let mut making = slot::start(config, session, from, to_do);
        let started = tokio::select! {
            started = &mut making.start => started,
            () = tokio::time::sleep(waiting::PATIENCE), if to_do == ToDo::Make => {
                waiting::oldest_transaction(client, &mut Repeats::default()).await;
                info!(target: "relay", state = %"parked", slot = config.slot, "the slot is not made yet: the table is read every second until it is");
                takeover.log_success();
                return Ok((Source::Making(making), publication));
            }
        };
        match started {
            Ok(stream) => {
                takeover.log_success();
                return Ok((Source::Stream(Box::new(stream)), publication));
            }
            // Another relay reads the slot, or the slot is gone because a relay died while it created it.
            Err(error) if error.slot_in_use() || error.slot_missing() => tokio::time::sleep(PAUSE).await,
            Err(error) => match slot::find(config, client).await? {
                Found::Invalidated if config.create_slot => {}
                _ => return Err(checks::stream_error(config, client, error).await),
            },
        }
    }
}

/// The current login for the server of `session`, which may be hours old. Another server is an error: stream and table
/// must belong to the same one.
fn same_server(config: &Config, session: &ConnInfo) -> Result<ConnInfo, RunError> {
    let now = config.database_url.now()?;
    if now.to_string() == session.to_string() {
        return Ok(now);
    }
    Err(RunError::new(Kind::Database, format!("connected to {session}, and now to connect to {now}"))
        .transient_if(true))
}
