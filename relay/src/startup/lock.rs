//! One relay works for a slot; the others wait here, connected.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, error::SqlState};
use tracing::{info, warn};

use super::checks;
use crate::{config::Config, error::RunError};

/// How often a waiting relay tries to take the lock. A blocked `pg_advisory_lock` would answer sooner, but it holds a
/// snapshot for as long as it waits, and so keeps vacuum from its work.
const PAUSE: Duration = Duration::from_millis(200);

/// How long the relay that has the lock may leave the slot unread, once it has been seen reading it.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long if it has not: usually it needs milliseconds from the lock to the stream, but a login can be slow.
const PATIENCE_AT_START: Duration = Duration::from_secs(30);

/// The session that has the lock, and whether someone reads the slot. An advisory lock's 64-bit key is shown in two halves
/// (<https://www.postgresql.org/docs/current/view-pg-locks.html>).
const HOLDER: &str = "
    FROM pg_catalog.pg_locks AS holder
    JOIN pg_catalog.pg_replication_slots AS slot ON slot.slot_name = $2
    WHERE holder.locktype = 'advisory' AND holder.granted AND holder.objsubid = 1
      AND holder.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
      AND ((holder.classid::bigint << 32) | holder.objid::bigint) = pg_catalog.hashtextextended($1, 0)";

/// Waits until this relay has the lock.
pub(super) async fn take(config: &Config, client: &Client, is_standby: &mut bool) -> Result<(), RunError> {
    let name = format!("outbox-relay {}", config.slot);
    let mut watch = Watch { lock: &name, slot: &config.slot, reading: None, idle: None, may_end_sessions: true };
    let since = Instant::now();
    loop {
        let taken: bool = client
            .query_one("SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended($1, 0))", &[&name])
            .await
            .and_then(|row| row.try_get(0))
            .map_err(checks::sql_error)?;
        if taken {
            if *is_standby {
                info!(target: "relay", waited = ?since.elapsed(), "the other relay is gone: taking over");
            }
            return Ok(());
        }
        if !*is_standby {
            *is_standby = true;
            info!(target: "relay", state = "standby", slot = config.slot, "another relay works for this slot: waiting to take over");
        }
        watch.look(client, Instant::now()).await.map_err(checks::sql_error)?;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks after the relay that has the lock. One that is frozen keeps its sessions, since its machine goes on answering for
/// it. The server ends its stream (`wal_sender_timeout`), but nothing ends the session that holds the lock.
struct Watch<'a> {
    lock: &'a str,
    slot: &'a str,
    /// The holder that was last seen while the slot was read.
    reading: Option<i32>,
    /// The holder that leaves the slot unread, and since when.
    idle: Option<(i32, Instant)>,
    may_end_sessions: bool,
}

impl Watch<'_> {
    async fn look(&mut self, client: &Client, now: Instant) -> Result<(), tokio_postgres::Error> {
        let find = format!("SELECT holder.pid, slot.active {HOLDER}");
        let holder: Option<(i32, bool)> = match client.query_opt(&find, &[&self.lock, &self.slot]).await? {
            Some(row) => Some((row.try_get(0)?, row.try_get(1)?)),
            None => None,
        };
        self.idle = match (holder, self.idle) {
            (Some((pid, true)), _) => {
                self.reading = Some(pid);
                None
            }
            (Some((pid, false)), Some((known, since))) if known == pid => Some((pid, since)),
            (Some((pid, false)), _) => Some((pid, now)),
            (None, _) => None,
        };
        let patience = |pid| if self.reading == Some(pid) { PATIENCE } else { PATIENCE_AT_START };
        match self.idle {
            Some((pid, since)) if now.duration_since(since) >= patience(pid) && self.may_end_sessions => {
                self.end_session(client, pid).await
            }
            _ => Ok(()),
        }
    }

    async fn end_session(&mut self, client: &Client, pid: i32) -> Result<(), tokio_postgres::Error> {
        warn!(target: "relay", pid, "the relay that has the lock does not read the slot: ending its session");
        let end = format!(
            "SELECT pg_catalog.pg_terminate_backend(holder.pid) {HOLDER} AND NOT slot.active AND holder.pid = $3"
        );
        match client.query(&end, &[&self.lock, &self.slot, &pid]).await {
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                self.may_end_sessions = false;
                warn!(target: "relay", %error, "cannot end the session: let the relays of one slot have the same role, or grant pg_signal_backend");
                Ok(())
            }
            ended => ended.map(|_| ()),
        }
    }
}
