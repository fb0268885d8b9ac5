//! The session or prepared transaction that keeps a transaction or a lock open, as far as this role may see it.

use std::fmt;

use tokio_postgres::{Error, Row};
use tracing::info;

/// A session or prepared transaction for which others wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blocker {
    /// `None`: a prepared transaction, which has no session any more.
    pub(crate) pid: Option<i32>,
    pub(crate) user: String,
    /// The program's name, or the name of the prepared transaction.
    pub(crate) application: Option<String>,
    /// `None`: the session is another role's, and this role may not see it.
    pub(crate) state: Option<String>,
    /// Age of the transaction, in seconds; `None`: this role may not see it.
    pub(crate) seconds: Option<i64>,
}

impl Blocker {
    /// The log's text for a blocker that delays the creation of a slot.
    pub(crate) const OF_SLOT: &str = "making the slot waits for an older transaction to end";

    /// Reads a row whose first columns are pid, role, application, state and seconds.
    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            pid: row.try_get(0)?,
            user: row.try_get(1)?,
            application: row.try_get::<_, Option<String>>(2)?.filter(|name| !name.is_empty()),
            state: row.try_get(3)?,
            seconds: row.try_get(4)?,
        })
    }

    /// Logs this blocker; `what` names the operation that waits for it.
    pub(crate) fn log(&self, what: &str) {
        let Self { pid, user, application, state, seconds } = self;
        if state.is_some() {
            info!(target: "relay", pid, user, application, state, seconds, "{what}");
        } else {
            // The session is another role's, so its application and state are hidden.
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
