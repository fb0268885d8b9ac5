//! Why there is no connection, or no longer.

use std::{fmt, io, time::Duration};

use client_socket::{Host, refused_by_tls};

use crate::wire::codes;

/// Why a producer could not be connected, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// Nobody listens, the name does not resolve, or TLS failed.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The attempt took too long.
    #[error("cannot connect within {0:?}")]
    ConnectTimeout(Duration),
    /// The connection has ended.
    #[error("the connection has ended")]
    Io(#[source] io::Error),
    /// The broker ends the connection before it lets the client in; the text says what it may expect.
    #[error("the broker ends the connection: {0}")]
    HungUp(&'static str),
    /// The broker does not let the user in.
    #[error("the broker refuses the login: {0}")]
    Authentication(String),
    /// The broker offers other mechanisms than the one that is asked for.
    #[error("the broker does not offer {asked}; it offers {offered}")]
    Mechanism {
        /// The mechanism that is asked for.
        asked: &'static str,
        /// The broker's mechanisms, with commas between.
        offered: String,
    },
    /// The listener knows no logins.
    #[error(
        "the broker knows no logins on this port: leave user and password out, or take the port of another listener"
    )]
    NoLogins,
    /// The broker does not speak a request in the version of this client.
    #[error(
        "the broker is too old, or too new: it speaks versions {min} to {max} of request {request}, and not {version}"
    )]
    Version {
        /// The number of the request's kind.
        request: i16,
        /// The version that this client speaks.
        version: i16,
        /// The oldest version that the broker speaks.
        min: i16,
        /// The newest version that the broker speaks.
        max: i16,
    },
    /// The server does not speak a request in any version.
    #[error(
        "the server does not know request {request}: it may be a KRaft controller, which takes no records (give the \
         port of a broker), or a broker that is too old"
    )]
    Unknown {
        /// The number of the request's kind.
        request: i16,
    },
    /// The broker answers a request with an error.
    #[error("{request}: {error}")]
    Refused {
        /// What was asked for.
        request: &'static str,
        /// Kafka's error code.
        code: i16,
        /// The code's name, and the broker's words.
        error: String,
    },
    /// What the broker says is not Kafka's protocol.
    #[error("the broker does not speak Kafka's protocol: {0}")]
    Protocol(String),
    /// The producer's id or epoch is no longer good: what is in flight may have been written or not.
    #[error("the broker no longer knows this producer: {0}")]
    LostIdentity(String),
    /// The brokers have answered nothing for so long; the text says what was wrong with the last connection.
    #[error("the brokers have confirmed nothing for {0:?}{1}")]
    Silent(Duration, String),
}

impl KafkaError {
    /// There is no host to connect to.
    pub(crate) fn nowhere() -> Self {
        Self::Protocol("there is no host".to_owned())
    }

    /// Whether the error may go away by itself.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect(error) => !refused_by_tls(error),
            Self::ConnectTimeout(_) | Self::Io(_) | Self::LostIdentity(_) | Self::Silent(..) => true,
            Self::Refused { code, .. } => codes::is_transient(*code),
            Self::HungUp(_)
            | Self::Authentication(_)
            | Self::Mechanism { .. }
            | Self::NoLogins
            | Self::Version { .. }
            | Self::Unknown { .. }
            | Self::Protocol(_) => false,
        }
    }
}

/// Why no broker of a cluster could be connected to: each host that was tried, with its error.
#[derive(Debug)]
pub struct ConnectError {
    /// The hosts, with their errors.
    pub failures: Vec<(Host, KafkaError)>,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (host, error)) in self.failures.iter().enumerate() {
            let between = if place == 0 { "" } else { "; " };
            write!(f, "{between}{host}: {error}")?;
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                write!(f, ": {cause}")?;
                source = cause.source();
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConnectError {}

impl ConnectError {
    /// Whether the error may go away by itself: at some host it may.
    pub fn is_transient(&self) -> bool {
        !self.is_login() && self.failures.iter().any(|(_, error)| error.is_transient())
    }

    /// Whether a broker does not let the user in.
    pub fn is_login(&self) -> bool {
        let is_login = |error: &KafkaError| {
            matches!(error, KafkaError::Authentication(_) | KafkaError::Mechanism { .. } | KafkaError::NoLogins)
        };
        self.failures.iter().any(|(_, error)| is_login(error))
    }
}
