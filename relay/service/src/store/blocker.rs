//! Who holds a transaction or a lock open, as far as this role may see.

use std::fmt;

use tokio_postgres::{Error, Row};
use tracing::info;

/// Somebody for whom others wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blocker {
    /// `None`: a prepared transaction, which has no session any more.
    pub(crate) pid: Option<i32>,
    pub(crate) user: String,
    /// The program's name; a prepared transaction's own.
    pub(crate) application: Option<String>,
    /// `None`: the session is another role's, and may not be seen.
    pub(crate) state: Option<String>,
    /// How long its transaction has lasted.
    pub(crate) seconds: Option<i64>,
}

impl Blocker {
    /// What making a slot waits for.
    pub(crate) const OF_SLOT: &str = "making the slot waits for an older transaction to end";

    /// Of a row whose first columns are pid, role, application, state and seconds.
    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            pid: row.try_get(0)?,
            user: row.try_get(1)?,
            application: row.try_get::<_, Option<String>>(2)?.filter(|name| !name.is_empty()),
            state: row.try_get(3)?,
            seconds: row.try_get(4)?,
        })
    }

    /// Tells people what it is that waits for this one.
    pub(crate) fn tell(&self, what: &str) {
        let Self { pid, user, application, state, seconds } = self;
        if state.is_some() {
            info!(target: "relay", pid, user, application, state, seconds, "{what}");
        } else {
            // The session is another role's.
            info!(target: "relay", pid, user, "{what}; to see its application and state, GRANT pg_read_all_stats to the relay's role");
        }
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pid) = self.pid {
            write!(f, "process {pid} of ")?;
        }
        write!(f, "role {:?}", self.user)?;
        self.application.as_ref().map_or(Ok(()), |name| write!(f, " ({name:?})"))
    }
}
