//! Why a connection could not be made.

use std::{io, time::Duration};

use tokio_postgres::error::SqlState;

use super::server_error::ServerError;

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

    /// Whether another host of the same connection string may do better. A server that looked at the credentials and
    /// refused has decided for all, as with libpq.
    pub(super) fn concerns_this_host_only(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) | Self::ReadOnly => true,
            Self::Refused(error) => error.is_outage(),
            Self::Tls(_) | Self::Login(_) => false,
        }
    }

    /// Tells what tokio-postgres tells.
    pub(super) fn from_sql(error: tokio_postgres::Error) -> Self {
        if let Some(refusal) = error.as_db_error() {
            return Self::Refused(Box::new(refusal.into()));
        }
        let text = error.to_string();
        match error.into_source().map(|source| source.downcast::<io::Error>()) {
            Some(Ok(io)) => Self::Unreachable(*io),
            Some(Err(source)) => Self::Login(format!("{text}: {source}")),
            None => Self::Unreachable(io::Error::new(io::ErrorKind::ConnectionAborted, text)), // closed
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
