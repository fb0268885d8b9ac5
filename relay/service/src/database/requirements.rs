//! Requirements that a server must meet, checked by the relay's startup and by the command `check`.

use std::fmt::Display;

use tokio_postgres::{Client, Error};

use crate::error::{Kind, RunError};

/// The oldest server with logical messages and binary values in pgoutput
/// (<https://www.postgresql.org/docs/14/release-14.html>).
const OLDEST_SERVER: i32 = 140_000;

/// The first server that raises `wal_level` by itself when the first logical slot is made
/// (<https://www.postgresql.org/docs/devel/logicaldecoding-explanation.html>).
const RAISES_WAL_LEVEL: i32 = 190_000;

/// The first server with slots that standbys copy (<https://www.postgresql.org/docs/17/release-17.html>).
const COPIES_SLOTS: i32 = 170_000;

/// The server's version and state.
const SERVER: &str =
    "SELECT current_setting('server_version_num')::int AS version, current_setting('wal_level') AS wal_level,
        pg_is_in_recovery() AS is_standby, current_setting('transaction_read_only')::bool AS is_read_only";

/// The properties of a server that decide whether a relay can work with it.
#[derive(Clone, Debug)]
pub struct Server {
    /// `server_version_num`: 150020 is PostgreSQL 15.20.
    pub version: i32,
    /// The setting `wal_level`.
    pub wal_level: String,
    is_standby: bool,
    /// Whether this session cannot write.
    is_read_only: bool,
}

/// Why no relay can work with a server.
#[derive(Debug)]
pub struct Unfit {
    kind: Kind,
    /// What was found.
    pub what: String,
    /// What the operator can do.
    pub hint: &'static str,
    is_transient: bool,
}

impl From<Unfit> for RunError {
    fn from(unfit: Unfit) -> Self {
        Self::new(unfit.kind, unfit.what).hint(unfit.hint).transient_if(unfit.is_transient)
    }
}

impl Server {
    /// Asks the server.
    ///
    /// # Errors
    ///
    /// An error of the server or of the connection.
    pub async fn of(client: &Client) -> Result<Self, Error> {
        let row = client.query_one(SERVER, &[]).await?;
        Ok(Self {
            version: row.try_get("version")?,
            wal_level: row.try_get("wal_level")?,
            is_standby: row.try_get("is_standby")?,
            is_read_only: row.try_get("is_read_only")?,
        })
    }

    /// Why no relay can work with the server, apart from its `wal_level`. `database` names the server, and
    /// `failover_slot` is the setting.
    pub fn unfit(&self, database: &impl Display, failover_slot: bool) -> Option<Unfit> {
        let unfit = |kind, what, hint| Some(Unfit { kind, what, hint, is_transient: false });
        if self.version < OLDEST_SERVER {
            let what = format!("the server is PostgreSQL {}", self.version / 10_000);
            return unfit(Kind::Database, what, "the relay needs PostgreSQL 14 or newer");
        }
        if let Some((what, hint)) = failover_slot_refused(failover_slot, self.version) {
            return unfit(Kind::Slot, what, hint);
        }
        let (what, hint) = if self.is_standby {
            (format!("{database} is a standby"), "connect to the primary") // transient: the standby may be promoted
        } else if self.is_read_only {
            let hint = "connect to the primary, and check default_transaction_read_only";
            (format!("{database} is read-only"), hint)
        } else {
            return None;
        };
        Some(Unfit { kind: Kind::Database, what, hint, is_transient: true })
    }

    /// Whether the server streams events at its `wal_level`.
    pub fn streams(&self) -> bool {
        wal_level_suffices(&self.wal_level, self.version)
    }
}

/// Why a server of this version refuses the setting `failover_slot`, and what to do; `None`: it does not.
pub fn failover_slot_refused(is_wanted: bool, version: i32) -> Option<(String, &'static str)> {
    (is_wanted && version < COPIES_SLOTS).then(|| {
        let what =
            format!("failover_slot needs PostgreSQL 17 or newer, and this server is PostgreSQL {}", version / 10_000);
        (what, "leave it out: after a failover the relay creates its slot again, and no event is lost")
    })
}

/// Whether a server of this version streams events at this `wal_level`.
fn wal_level_suffices(wal_level: &str, version: i32) -> bool {
    wal_level == "logical" || (wal_level == "replica" && version >= RAISES_WAL_LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wal_level_replica_is_enough_where_the_server_raises_it() {
        for (wal_level, version, enough) in [
            ("logical", 140_000, true),
            ("replica", 180_006, false),
            ("replica", 190_000, true),
            ("minimal", 190_000, false),
        ] {
            assert_eq!(wal_level_suffices(wal_level, version), enough, "{wal_level} on {version}");
        }
    }
}
