//! Failed statements, and what can be done about them.

use std::fmt;

use tokio_postgres::error::SqlState;

use outbox_core::{Failure, Remedy};

use super::BadRow;
use crate::error::{chain, one_line};

/// A statement failed.
#[derive(thiserror::Error)]
pub enum StoreError {
    /// The server's or the connection's error.
    #[error("{}", summary(.0))]
    Sql(tokio_postgres::Error),
    /// The table is not the extension's.
    #[error(transparent)]
    BadRow(#[from] BadRow),
    /// The server's answer cannot be read.
    #[error("unexpected answer: {0}")]
    Answer(String),
}

/// Shows the same as `Display`, because the server's whole answer can contain a row.
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
    /// The server's reason, if it has refused the statement; see [`refusal`].
    pub(super) fn refusal(&self) -> Option<String> {
        let Self::Sql(error) = self else { return None };
        refusal(error)
    }

    /// Whether a row that was read may be the cause, being too large to print or on a damaged page on disk.
    pub(super) fn may_be_a_rows(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        self.remedy() == Some(Remedy::Isolate) || error.code() == Some(&SqlState::OUT_OF_MEMORY)
    }

    /// Whether the same statement may succeed later with the same rows.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self.remedy(), Some(Remedy::Repeat | Remedy::PassLocks))
    }

    /// The failure with its remedy, or the error itself if the session must end.
    pub(super) fn failure(self) -> Result<Failure, Self> {
        match self.remedy() {
            Some(remedy) => Ok(Failure { remedy, error: self.to_string() }),
            None => Err(self),
        }
    }

    /// Whether it is the server's answer, after which the session goes on.
    pub(super) fn is_an_answer(&self) -> bool {
        matches!(self, Self::Sql(error) if error.as_db_error().is_some() && !error.is_closed())
    }

    /// What this session can do about the error; `None`: the session must end.
    fn remedy(&self) -> Option<Remedy> {
        let Self::Sql(error) = self else { return None };
        let state = error.code().filter(|_| !error.is_closed())?;
        match state.code().get(..2) {
            _ if *state == SqlState::LOCK_NOT_AVAILABLE => Some(Remedy::PassLocks),
            // 25006 means that the primary is another server now, so the relay connects anew. Statements that no longer
            // fit the schema are prepared anew by the next session.
            Some("08" | "0A" | "25" | "26" | "3F" | "42" | "57") if *state != SqlState::QUERY_CANCELED => None,
            Some("40" | "53" | "55" | "57") => Some(Remedy::Repeat),
            _ => Some(Remedy::Isolate),
        }
    }
}

/// The reason for which the server refuses a statement in every session: message, SQLSTATE, and the place, such as an
/// event trigger; `None`: the failure is of another kind. Only for statements that touch no row, because the DETAIL of
/// others can contain a payload.
pub(crate) fn refusal(error: &tokio_postgres::Error) -> Option<String> {
    let refused = error.as_db_error().filter(|_| !error.is_closed())?;
    let state = refused.code();
    let is_other = matches!(state.code().get(..2), Some("08" | "25" | "26" | "3F" | "40" | "53" | "57" | "58" | "XX"));
    if is_other || [&SqlState::LOCK_NOT_AVAILABLE, &SqlState::UNDEFINED_FUNCTION].contains(&state) {
        return None;
    }
    let place = [refused.detail(), refused.where_()].into_iter().flatten();
    let place: Vec<String> = place.map(one_line).collect();
    Some([vec![summary(error)], place].concat().join("; "))
}

/// The server's message and SQLSTATE, without its DETAIL, which can contain a whole row with its payload.
fn summary(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(refusal) => format!("{} (SQLSTATE {})", refusal.message(), refusal.code().code()),
        None => chain(error),
    }
}
