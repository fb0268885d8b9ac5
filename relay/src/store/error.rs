//! What a failed statement means.

use tokio_postgres::error::SqlState;

use crate::{error::chain, row::BadRow};

/// A statement failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The server's or the connection's error.
    #[error("{}", told(.0))]
    Sql(tokio_postgres::Error),
    /// The table is not the extension's.
    #[error(transparent)]
    BadRow(#[from] BadRow),
    /// The server's answer cannot be read.
    #[error("unexpected answer: {0}")]
    Answer(String),
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl StoreError {
    /// Whether a row that was read may be the cause: it is too large to print, or its pages on disk are damaged.
    pub fn may_be_a_rows(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        self.remedy() == Remedy::Isolate || error.code() == Some(&SqlState::OUT_OF_MEMORY)
    }

    /// What can be done about it.
    pub fn remedy(&self) -> Remedy {
        let Self::Sql(error) = self else { return Remedy::Reconnect };
        let Some(state) = error.code().filter(|_| !error.is_closed()) else { return Remedy::Reconnect };
        match state.code().get(..2) {
            _ if *state == SqlState::LOCK_NOT_AVAILABLE => Remedy::PassLocks,
            // On a server that takes no writes, 25006, the primary is elsewhere; with statements that do not fit the schema,
            // prepare them anew.
            Some("08" | "0A" | "25" | "26" | "3F" | "42" | "57") if *state != SqlState::QUERY_CANCELED => {
                Remedy::Reconnect
            }
            Some("40" | "53" | "55" | "57") => Remedy::Repeat,
            _ => Remedy::Isolate,
        }
    }
}

/// The server's message and code. Not its DETAIL, which can hold a whole row, payload and all.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(refusal) => format!("{} (SQLSTATE {})", refusal.message(), refusal.code().code()),
        None => chain(error),
    }
}

/// What to do about a statement that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// End the session.
    Reconnect,
    /// Run it again: a deadlock, a statement cancelled, a full disk.
    Repeat,
    /// Someone has locked rows, or the table: pass over the rows.
    PassLocks,
    /// Some row of the batch may be at fault, as when a trigger of the user's refuses it.
    Isolate,
}
