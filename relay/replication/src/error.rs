//! Why a connection could not be made, and what can go wrong on one.

use std::{io, time::Duration};

use client_socket::refused_by_tls;
use tokio_postgres::error::SqlState;

use crate::server_error::ServerError;

/// No session: which server, and why. `Display` tells it all, so `source()` is empty.
#[derive(Debug, thiserror::Error)]
#[error("{server}: {cause}")]
pub struct ConnectError {
    /// `host:port`, or a Unix socket's folder and port.
    pub server: String,
    /// What went wrong.
    pub cause: ConnectCause,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConnectCause {
    /// The name does not resolve, nobody listens, the network is down, or the connection broke.
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The connection could not be encrypted as asked for, or the server's certificate is not to be trusted.
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    /// The server refused: see its SQLSTATE.
    #[error("{0}")]
    Refused(Box<ServerError>),
    /// Client and server found no way to log in, or the server could not prove that it knows the password.
    #[error("cannot log in: {0}")]
    Login(String),
    /// The server takes no writes, and `target_session_attrs=read-write` was asked for.
    #[error("the server is read-only, and target_session_attrs asks for read-write")]
    ReadOnly,
}

impl ConnectError {
    /// As [`ConnectCause::is_transient`].
    pub fn is_transient(&self) -> bool {
        self.cause.is_transient()
    }

    /// The server's code, if the server refused: `28P01` wrong password, `28000` not let in, `3D000` no such database,
    /// `42501` no permission (for replication, too), `53300` too many connections, `57P03` starting up or shutting
    /// down.
    pub fn sqlstate(&self) -> Option<&SqlState> {
        self.cause.sqlstate()
    }
}

impl ConnectCause {
    /// As [`ConnectError::sqlstate`].
    pub fn sqlstate(&self) -> Option<&SqlState> {
        match self {
            Self::Refused(error) => Some(&error.sqlstate),
            _ => None,
        }
    }

    /// Whether another attempt may do although nobody changes anything: servers start and are promoted, networks come back,
    /// connections become free. What TLS or the server has refused stays as it is.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) | Self::ReadOnly => true,
            Self::Tls(error) => !refused_by_tls(error),
            Self::Refused(error) => error.is_transient(),
            Self::Login(_) => false,
        }
    }

    /// Whether another host of the same connection string may do better. A server that looked at the credentials and
    /// refused has decided for all, as with libpq.
    pub(crate) fn concerns_this_host_only(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) | Self::ReadOnly => true,
            Self::Refused(error) => error.is_outage(),
            Self::Tls(_) | Self::Login(_) => false,
        }
    }
}

impl From<io::Error> for ConnectCause {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(error)
    }
}

impl From<ServerError> for ConnectCause {
    fn from(error: ServerError) -> Self {
        Self::Refused(Box::new(error))
    }
}

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
    /// The server has said nothing for so long, and has not answered when it was asked.
    #[error("the server has said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// The server sent what the protocol does not allow here.
    #[error("the server does not follow the replication protocol: {0}")]
    Protocol(&'static str),
}

impl ReplError {
    /// The server's code, if the error is the server's.
    pub fn sqlstate(&self) -> Option<&SqlState> {
        match self {
            Self::Command(error) | Self::Stream(error) => Some(&error.sqlstate),
            Self::Ended | Self::Io(_) | Self::Silent(_) | Self::Protocol(_) => None,
        }
    }

    /// Another walsender reads the slot: a second reader, or one whose connection died and whose walsender has not
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

    /// The server may not read the WAL with pgoutput: `output_plugin_libraries` does not name it (from the minor releases of November 2026
    /// on). It says so with the code of a role that lacks the right to replicate.
    pub fn plugin_refused(&self) -> bool {
        let is_about_plugin = |error: &ServerError| error.routine.as_deref() == Some("StartupDecodingContext");
        self.command_failed_with(&SqlState::INSUFFICIENT_PRIVILEGE)
            && matches!(self, Self::Command(error) if is_about_plugin(error))
    }

    /// There is no such publication. The server looks it up when the first change comes along, not at the start, and
    /// as of that change: creating the publication later does not help. Newer servers only log a warning.
    pub fn publication_missing(&self) -> bool {
        matches!(self, Self::Stream(error) if error.sqlstate == SqlState::UNDEFINED_OBJECT)
    }

    /// The server cannot put into the stream what stands in the WAL, and would fail there again: a row or a logical message
    /// that is longer as the protocol has it than a server can hold in memory (1 GB), or a text that is none in UTF-8, which a
    /// database in another encoding may have.
    pub fn not_streamable(&self) -> bool {
        const CAUSES: [SqlState; 4] = [
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            SqlState::INTERNAL_ERROR,
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            SqlState::UNTRANSLATABLE_CHARACTER,
        ];
        matches!(self, Self::Stream(error) if CAUSES.contains(&error.sqlstate))
    }

    /// The connection is gone, or the server is going: connect again after a while.
    pub fn connection_lost(&self) -> bool {
        match self {
            Self::Ended | Self::Io(_) | Self::Silent(_) => true,
            Self::Protocol(_) => false,
            Self::Command(error) | Self::Stream(error) => error.is_outage(),
        }
    }

    /// Whether another attempt may do although nobody changes anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Ended | Self::Io(_) | Self::Silent(_) => true,
            Self::Protocol(_) => false,
            Self::Command(error) | Self::Stream(error) => error.is_transient(),
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
