//! The connected relays of this database. `status` and the dashboard query them.

use serde::Serialize;
use tokio_postgres::{Error, Row};

/// A session of a relay, as the dashboard shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Session {
    pub(crate) pid: i32,
    pub(crate) role: Option<String>,
    pub(crate) name: Option<String>,
    address: Option<String>,
    /// When the session began.
    since: Option<String>,
    state: Option<String>,
    is_walsender: Option<bool>,
    /// Whether the session reads the slot.
    pub(crate) streams: bool,
    /// Whether the session reads another slot.
    #[serde(skip)]
    streams_another: bool,
    #[serde(skip)]
    is_client: Option<bool>,
}

/// All sessions, the one at work first.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    pub(crate) sessions: Vec<Session>,
    /// Whether this role sees the names of its own sessions only.
    pub(crate) is_partial: bool,
}

/// Sessions under the name `$2`, and the one that reads the slot `$1`. Without any, one row without a session is
/// returned.
pub(crate) const SESSIONS: &str = "
    SELECT NOT pg_has_role('pg_read_all_stats', 'USAGE') AS is_partial, session.*
    FROM (SELECT) AS once LEFT JOIN (
        SELECT a.pid, a.usename::text AS role, a.application_name AS name, host(a.client_addr) AS address,
            to_json(a.backend_start) #>> '{}' AS since, a.state,
            a.backend_type = 'walsender' AS is_walsender, a.backend_type = 'client backend' AS is_client,
            slot.slot_name IS NOT NULL AND slot.slot_name = $1 AS streams,
            slot.slot_name IS NOT NULL AND slot.slot_name <> $1 AS streams_another
        FROM pg_stat_activity AS a
        LEFT JOIN pg_replication_slots AS slot
            ON slot.active_pid = a.pid AND slot.database = current_database() AND NOT slot.temporary
        WHERE a.datname = current_database() AND (a.application_name = $2 OR slot.slot_name = $1)
    ) AS session ON true
    ORDER BY session.streams DESC, session.since, session.pid";

impl Relays {
    /// Reads the rows of [`SESSIONS`].
    pub(crate) fn read(rows: &[Row]) -> Result<Self, Error> {
        let mut relays = Self::default();
        for row in rows {
            relays.is_partial = row.try_get("is_partial")?;
            let Some(pid) = row.try_get("pid")? else { continue };
            relays.sessions.push(Session {
                pid,
                role: row.try_get("role")?,
                name: row.try_get("name")?,
                address: row.try_get("address")?,
                since: row.try_get("since")?,
                state: row.try_get("state")?,
                is_walsender: row.try_get("is_walsender")?,
                streams: row.try_get("streams")?,
                streams_another: row.try_get("streams_another")?,
                is_client: row.try_get("is_client")?,
            });
        }
        Ok(relays)
    }

    /// Returns the server process of the relay that reads the slot.
    pub(crate) fn working(&self) -> Option<i32> {
        self.sessions.iter().find(|session| session.streams).map(|session| session.pid)
    }

    /// Returns the number of standbys with this name, as each relay has one session for SQL; `None` if this role does
    /// not see them.
    pub(crate) fn standby(&self, name: &str) -> Option<usize> {
        let named = |session: &&Session| session.name.as_deref() == Some(name);
        let named = self.sessions.iter().filter(named);
        let clients = named.clone().filter(|session| session.is_client == Some(true)).count();
        let elsewhere = named.filter(|session| session.streams_another).count();
        // A role always sees the names of its own sessions. If no other name is visible, nothing is known.
        let at_work = elsewhere + usize::from(self.working().is_some());
        (!self.is_partial || clients > 0).then(|| clients.saturating_sub(at_work))
    }
}
