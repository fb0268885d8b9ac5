//! One relay reads the slot; the others wait here, connected.
//!
//! The slot is the lock: the server lets one session read it, and only a role that may replicate. So nobody without that
//! right can keep the relays from their work, and a stream is never started beside another.

use std::time::{Duration, Instant};

use pg_replication::{ConnInfo, Lsn, Replication};
use tokio_postgres::Client;
use tracing::info;

use super::{
    checks,
    publication::{self, Publication},
    slot::{self, Found, Holder, ToDo},
    waiting,
};
use crate::{
    config::Config,
    error::{Kind, RunError},
    observe::{Observed, Phase},
    repeats::Repeats,
    session::Source,
    store::sql,
};

/// How often a waiting relay looks whether the slot is free. A `START_REPLICATION` in its stead would write an error into
/// the server's log each time.
const PAUSE: Duration = Duration::from_millis(200);

/// Where a stream begins that is to bring nothing. It holds the slot, and moves it, but the server asks no publication about what it
/// passes over.
const NOWHERE: Lsn = Lsn(u64::MAX);

/// A server needs a moment to notice that a stream's reader is gone: until then nobody is said to read the slot.
const MOMENT: Duration = Duration::from_millis(500);

/// This relay's place in the queue for the slot; it outlives a lost connection.
#[derive(Debug, Default)]
pub(super) struct Turn {
    since: Option<Instant>,
    is_standby: bool,
    /// The server process of this relay's earlier stream.
    own: Option<i32>,
    told_of_own: bool,
}

impl Turn {
    pub(super) fn new(own: Option<i32>) -> Self {
        Self { own, ..Self::default() }
    }

    /// Whether another relay was seen at work.
    pub(super) fn is_standby(&self) -> bool {
        self.is_standby
    }

    fn wait_for(&mut self, holder: &Holder, config: &Config) {
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.is_standby || since.elapsed() < MOMENT {
            return;
        }
        let Holder { pid, user, application } = holder;
        if self.own == Some(*pid) {
            if !self.told_of_own {
                self.told_of_own = true;
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

    fn has_come(&mut self) {
        if self.is_standby {
            let waited = self.since.map(|since| since.elapsed()).unwrap_or_default();
            info!(target: "relay", ?waited, "the other relay is gone: taking over");
        }
    }
}

/// Waits until nobody reads the slot, and starts the stream at `from`, or where the slot has confirmed if that is later; or behind a WAL
/// that is long. Makes publication and slot where they are missing. If making the slot takes long, that goes on beside the session.
///
/// A waiting relay has no replication connection: it takes none of `max_wal_senders`.
pub(super) async fn take(
    config: &Config,
    client: &Client,
    server: &ConnInfo,
    replication: Replication,
    from: Lsn,
    turn: &mut Turn,
    observed: &Observed,
) -> Result<(Source, Publication), RunError> {
    let mut replication = Some(replication);
    let mut has_waited = false;
    loop {
        let found = slot::find(config, client).await?;
        if let Found::Taken(holder) = &found {
            (replication, has_waited) = (None, true);
            turn.wait_for(holder, config);
            if turn.is_standby() {
                observed.enters(Phase::Standby);
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        if has_waited {
            checks::extension(client, &config.database_url).await?; // it may have been upgraded meanwhile, or dropped
            has_waited = false;
        }
        let session = match replication.take() {
            Some(session) => session,
            None => slot::connect(config, &same_server(config, server)?, client).await?,
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
            Publication::Whole { .. } => from.max(slot::behind_a_long_log(config, client).await?),
        };
        let mut making = slot::start(config, session, from, to_do);
        let started = tokio::select! {
            started = &mut making.start => started,
            () = tokio::time::sleep(waiting::PATIENCE), if to_do == ToDo::Make => {
                waiting::oldest_transaction(client, &mut Repeats::default()).await;
                info!(target: "relay", state = %"parked", slot = config.slot, "the slot is not made yet: the table is read every second until it is");
                turn.has_come();
                return Ok((Source::Making(making), publication));
            }
        };
        match started {
            Ok(stream) => {
                turn.has_come();
                return Ok((Source::Stream(Box::new(stream)), publication));
            }
            // Another relay was quicker, or one that died while it made the slot has taken it along.
            Err(error) if error.slot_in_use() || error.slot_missing() => tokio::time::sleep(PAUSE).await,
            Err(error) => match slot::find(config, client).await? {
                Found::Invalidated if config.create_slot => {}
                _ => return Err(checks::stream_error(config, client, error).await),
            },
        }
    }
}

/// How to log in now to the server of a session that may be hours old. The stream of one server, and the table of another, must not meet.
fn same_server(config: &Config, session: &ConnInfo) -> Result<ConnInfo, RunError> {
    let now = config.database_url.now()?;
    if now.to_string() == session.to_string() {
        return Ok(now);
    }
    Err(RunError::new(Kind::Database, format!("connected to {session}, and now to connect to {now}"))
        .transient_if(true))
}
