//! What a failed statement means.

use std::fmt;

use tokio_postgres::error::SqlState;

use outbox_core::{Failure, Remedy};

use super::BadRow;
use crate::error::chain;

/// A statement failed.
#[derive(thiserror::Error)]
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

/// As it is told: the server's whole answer can hold a row.
impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl StoreError {
    /// The server's words, if it has refused the statement; see [`refusal`].
    pub(super) fn refusal(&self) -> Option<String> {
        let Self::Sql(error) = self else { return None };
        refusal(error)
    }

    /// Whether a row that was read may be the cause: it is too large to print, or its pages on disk are damaged.
    pub(super) fn may_be_a_rows(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        self.remedy() == Some(Remedy::Isolate) || error.code() == Some(&SqlState::OUT_OF_MEMORY)
    }

    /// Whether the statement may succeed when it is run again, whatever the rows.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self.remedy(), Some(Remedy::Repeat | Remedy::PassLocks))
    }

    /// The failure, if something can be done about it in this session.
    pub(super) fn failure(self) -> Result<Failure, Self> {
        match self.remedy() {
            Some(remedy) => Ok(Failure { remedy, error: self.to_string() }),
            None => Err(self),
        }
    }

    /// What can be done about it; `None`: the session must end.
    fn remedy(&self) -> Option<Remedy> {
        let Self::Sql(error) = self else { return None };
        let state = error.code().filter(|_| !error.is_closed())?;
        match state.code().get(..2) {
            _ if *state == SqlState::LOCK_NOT_AVAILABLE => Some(Remedy::PassLocks),
            // On a server that takes no writes, 25006, the primary is elsewhere; with statements that do not fit the schema,
            // prepare them anew.
            Some("08" | "0A" | "25" | "26" | "3F" | "42" | "57") if *state != SqlState::QUERY_CANCELED => None,
            Some("40" | "53" | "55" | "57") => Some(Remedy::Repeat),
            _ => Some(Remedy::Isolate),
        }
    }
}

/// What the server says to a statement that it refuses, which another session would hear as well: the message, its code, and where, as in
/// an event trigger. `None`: the failure is of another kind. For statements that touch no row, whose DETAIL is nobody's payload.
pub(crate) fn refusal(error: &tokio_postgres::Error) -> Option<String> {
    let refused = error.as_db_error().filter(|_| !error.is_closed())?;
    let state = refused.code();
    let is_other = matches!(state.code().get(..2), Some("08" | "25" | "26" | "3F" | "40" | "53" | "57" | "58" | "XX"));
    if is_other || [&SqlState::LOCK_NOT_AVAILABLE, &SqlState::UNDEFINED_FUNCTION].contains(&state) {
        return None;
    }
    let place = [refused.detail(), refused.where_()].into_iter().flatten();
    let place: Vec<String> = place.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    Some([vec![told(error)], place].concat().join("; "))
}

/// The server's message and code. Not its DETAIL, which can hold a whole row, payload and all.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(refusal) => format!("{} (SQLSTATE {})", refusal.message(), refusal.code().code()),
        None => chain(error),
    }
}
