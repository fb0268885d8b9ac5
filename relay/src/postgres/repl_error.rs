//! What can go wrong on a replication connection.

use std::io;

use tokio_postgres::error::SqlState;

use super::server_error::ServerError;

/// A replication command or stream that failed. `Display` tells it all, so `source()` is empty.
///
/// Unless a command says otherwise, the connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum ReplError {
    /// The server refused a command.
    #[error("{0}")]
    Command(Box<ServerError>),
    /// The server broke a running stream off.
    #[error("the server ended the stream: {0}")]
    Stream(Box<ServerError>),
    /// The server ended the stream in good order, as it does when it shuts down.
    #[error("the server ended the stream")]
    Ended,
    /// The connection broke.
    #[error("lost the connection to the database: {0}")]
    Io(io::Error),
    /// The server sent what the protocol does not allow here.
    #[error("the server does not follow the replication protocol: {0}")]
    Protocol(&'static str),
}

impl ReplError {
    /// The server's code, if the error is the server's.
    pub fn sqlstate(&self) -> Option<&SqlState> {
        match self {
            Self::Command(error) | Self::Stream(error) => Some(&error.sqlstate),
            Self::Ended | Self::Io(_) | Self::Protocol(_) => None,
        }
    }

    /// Another walsender reads the slot: a second relay, or one whose connection died and whose walsender has not
    /// noticed yet (it lives until `wal_sender_timeout`). The server's message names its pid.
    pub fn slot_in_use(&self) -> bool {
        self.command_failed_with(&SqlState::OBJECT_IN_USE)
    }

    /// There is no such slot.
    pub fn slot_missing(&self) -> bool {
        self.command_failed_with(&SqlState::UNDEFINED_OBJECT)
    }

    /// There is such a slot already.
    pub fn slot_exists(&self) -> bool {
        self.command_failed_with(&SqlState::DUPLICATE_OBJECT)
    }

    /// The slot cannot be read any more: the WAL that it needs is gone, or it was made for another purpose.
    ///
    /// A server whose `wal_level` is not `logical` answers with the same code.
    pub fn slot_invalidated(&self) -> bool {
        self.command_failed_with(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)
    }

    /// There is no such publication. The server looks it up when the first change comes along, not at the start, and
    /// as of that change: creating the publication later does not help. Newer servers only log a warning.
    pub fn publication_missing(&self) -> bool {
        matches!(self, Self::Stream(error) if error.sqlstate == SqlState::UNDEFINED_OBJECT)
    }

    /// The server cannot put into the stream what stands in the log, and would fail there again: a row or a logical message
    /// that is longer as the protocol has it than a server can hold in memory (1 GB).
    pub fn not_streamable(&self) -> bool {
        matches!(self, Self::Stream(error) if error.sqlstate == SqlState::PROGRAM_LIMIT_EXCEEDED
            || error.sqlstate == SqlState::INTERNAL_ERROR)
    }

    /// The connection is gone, or the server is going: connect again after a while.
    pub fn connection_lost(&self) -> bool {
        match self {
            Self::Ended | Self::Io(_) => true,
            Self::Protocol(_) => false,
            Self::Command(error) | Self::Stream(error) => error.is_outage(),
        }
    }

    fn command_failed_with(&self, sqlstate: &SqlState) -> bool {
        matches!(self, Self::Command(error) if error.sqlstate == *sqlstate)
    }
}

impl From<io::Error> for ReplError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
