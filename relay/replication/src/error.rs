//! Errors of connecting, and of a connection.

use std::{io, time::Duration};

use client_socket::{is_of_tls, refused_by_tls};
use tokio_postgres::error::SqlState;

use crate::server_error::ServerError;

/// Why there is no session. `Display` shows the cause too, so `source()` is empty.
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
    /// The server did not answer in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The connection could not be encrypted as asked for, or one side does not trust the other's certificate.
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    /// The server answered with an error; see its SQLSTATE.
    #[error("{0}")]
    Server(Box<ServerError>),
    /// Client and server found no way to log in, or the server could not prove that it knows the password.
    #[error("cannot log in: {0}")]
    Login(String),
    /// The server takes no writes, and `target_session_attrs=read-write` was asked for.
    #[error("the server is read-only, and target_session_attrs asks for read-write")]
    ReadOnly,
}

impl ConnectError {
    /// See [`ConnectCause::is_transient`].
    pub fn is_transient(&self) -> bool {
        self.cause.is_transient()
    }

    /// The code of the server's error: `28P01` wrong password, `28000` no entry, `3D000` no such database, `42501` no
    /// permission (for replication, too), `53300` too many connections, `57P03` starting up or shutting down.
    pub fn sqlstate(&self) -> Option<&SqlState> {
        self.cause.sqlstate()
    }
}

impl ConnectCause {
    /// See [`ConnectError::sqlstate`].
    pub fn sqlstate(&self) -> Option<&SqlState> {
        match self {
            Self::Server(error) => Some(&error.sqlstate),
            _ => None,
        }
    }

    /// Whether the error may go away by itself: servers start and are promoted, networks come back, connections become
    /// free. A refusal by TLS or by the server stays.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) | Self::ReadOnly => true,
            Self::Tls(error) => !refused_by_tls(error),
            Self::Server(error) => error.is_transient(),
            Self::Login(_) => false,
        }
    }

    /// Whether another host of the same connection string may do better. As with libpq, a server that refuses the
    /// credentials decides for all.
    pub(crate) fn concerns_this_host_only(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) | Self::ReadOnly => true,
            Self::Server(error) => error.is_outage(),
            Self::Tls(_) | Self::Login(_) => false,
        }
    }
}

impl From<io::Error> for ConnectCause {
    fn from(error: io::Error) -> Self {
        if is_of_tls(&error) { Self::Tls(error) } else { Self::Unreachable(error) }
    }
}

impl From<ServerError> for ConnectCause {
    fn from(error: ServerError) -> Self {
        Self::Server(Box::new(error))
    }
}

/// Why a replication command or stream failed. `Display` shows the cause too, so `source()` is empty.
///
/// Unless a command's documentation says otherwise, the connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum ReplError {
    /// The server answered a command with an error.
    #[error("{0}")]
    Command(Box<ServerError>),
    /// The server ended a running stream with an error.
    #[error("the server ended the stream: {0}")]
    Stream(Box<ServerError>),
    /// The server ended the stream in good order, as at a shutdown.
    #[error("the server ended the stream")]
    Ended,
    /// The connection broke.
    #[error("lost the connection to the database: {0}")]
    Io(io::Error),
    /// The server has been silent for this long, and has not answered a question.
    #[error("the server has said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// The server broke the protocol.
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

    /// Whether another walsender reads the slot: a second reader's, or the walsender of a dead connection, which lives
    /// until `wal_sender_timeout`. The server's message names its pid.
    pub fn slot_in_use(&self) -> bool {
        self.command_failed_with(&SqlState::OBJECT_IN_USE)
    }

    /// Whether the slot does not exist.
    pub fn slot_missing(&self) -> bool {
        self.command_failed_with(&SqlState::UNDEFINED_OBJECT)
    }

    /// Whether a slot of this name exists already.
    pub fn slot_exists(&self) -> bool {
        self.command_failed_with(&SqlState::DUPLICATE_OBJECT)
    }

    /// Whether the slot cannot be read: the WAL that it needs is gone, or it was made for another purpose.
    ///
    /// A server whose `wal_level` is not `logical` answers with the same code.
    pub fn slot_invalidated(&self) -> bool {
        self.command_failed_with(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)
    }

    /// Whether the server may not load pgoutput, because `output_plugin_libraries` does not name it (minor releases of
    /// November 2026 and later). The code is the same as for a role that lacks the right to replicate.
    pub fn plugin_refused(&self) -> bool {
        let is_about_plugin = |error: &ServerError| error.routine.as_deref() == Some("StartupDecodingContext");
        self.command_failed_with(&SqlState::INSUFFICIENT_PRIVILEGE)
            && matches!(self, Self::Command(error) if is_about_plugin(error))
    }

    /// Whether the publication does not exist. The server looks it up with the first change, and as of that change, so
    /// creating the publication later does not help. Newer servers only log a warning.
    pub fn publication_missing(&self) -> bool {
        matches!(self, Self::Stream(error) if error.sqlstate == SqlState::UNDEFINED_OBJECT)
    }

    /// Whether the server cannot send a change in the WAL, and would fail there again. A row or a logical message may
    /// be longer in the protocol's form than a server can hold in memory (1 GB), or a database in another encoding may
    /// have text that UTF-8 cannot express.
    pub fn not_streamable(&self) -> bool {
        const CAUSES: [SqlState; 4] = [
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            SqlState::INTERNAL_ERROR,
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            SqlState::UNTRANSLATABLE_CHARACTER,
        ];
        matches!(self, Self::Stream(error) if CAUSES.contains(&error.sqlstate))
    }

    /// Whether the connection is gone or the server is going: connect again after a while.
    pub fn connection_lost(&self) -> bool {
        match self {
            Self::Ended | Self::Io(_) | Self::Silent(_) => true,
            Self::Protocol(_) => false,
            Self::Command(error) | Self::Stream(error) => error.is_outage(),
        }
    }

    /// Whether the error may go away by itself.
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
