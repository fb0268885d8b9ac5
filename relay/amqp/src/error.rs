//! What can go wrong between a publisher and the broker.

use std::{io, time::Duration};

const PERMIT: &str = "give its user write permission (rabbitmqctl set_permissions)";

/// Why there is no connection to the broker, or no longer one. None of these is a message's fault: whatever was
/// unanswered is unknown and may be published again.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// A setting that cannot be sent as AMQP.
    #[error("{name}: {reason}")]
    Setting {
        /// The field of [`PublishConfig`](crate::PublishConfig).
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Name resolution or the TCP connection failed.
    #[error("cannot connect to {address}")]
    Connect {
        /// `host:port`.
        address: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The connection, from TCP to the open channel, was not ready in time.
    #[error("no connection to {address} within {after:?}")]
    ConnectTimeout {
        /// `host:port`.
        address: String,
        /// The configured limit.
        after: Duration,
    },
    /// A certificate file is unusable, or the TLS handshake failed.
    #[error("TLS with {address}")]
    Tls {
        /// `host:port`.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// User or password is wrong, or the broker offers no mechanism that this client can use.
    #[error("the broker refuses user {user:?}: {text}")]
    Authentication {
        /// Who tried to log in.
        user: String,
        /// The broker's words.
        text: String,
    },
    /// The virtual host does not exist, is closed to the user, or is down.
    #[error("the broker refuses virtual host {vhost:?}: {code} {text}")]
    Vhost {
        /// Name of the virtual host.
        vhost: String,
        /// AMQP reply code, 530 as a rule.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The configured exchange exists with another type or other properties than are declared (406).
    #[error("exchange {exchange:?} is not what is declared (topic, durable): {text}")]
    ExchangeMismatch {
        /// Its name.
        exchange: String,
        /// The broker's words.
        text: String,
    },
    /// The configured exchange is not there, and is not to be declared, or not again (404).
    #[error("there is no exchange {exchange:?}: {text}")]
    ExchangeMissing {
        /// Its name.
        exchange: String,
        /// The broker's words.
        text: String,
    },
    /// The user may not declare the configured exchange, or not publish to it (403).
    #[error("the broker does not permit the use of exchange {exchange:?}: {text}")]
    AccessRefused {
        /// Its name.
        exchange: String,
        /// The broker's words.
        text: String,
    },
    /// The user may not publish to the configured exchange (403).
    #[error("the broker does not permit to publish to exchange {exchange:?}: {text}; {PERMIT}")]
    MayNotPublish {
        /// Its name.
        exchange: String,
        /// The broker's words.
        text: String,
    },
    /// The broker closed the channel for a reason that is no message's fault.
    #[error("the broker closed the channel: {code} {text}")]
    ChannelClosed {
        /// AMQP reply code.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The broker closed the connection: it stops (320), or an operator closed it, or an internal error (541).
    #[error("the broker closed the connection: {code} {text}")]
    ConnectionClosed {
        /// AMQP reply code.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The socket failed or ended.
    #[error("the connection broke")]
    Disconnected(#[source] io::Error),
    /// Nothing came from the broker, not even a heartbeat.
    #[error("the broker has been silent for {0:?}")]
    HeartbeatMissed(Duration),
    /// Messages are in flight, and the broker has answered none for the configured time.
    #[error("the broker has answered none of {unanswered} messages for {after:?}")]
    ConfirmTimeout {
        /// The configured limit.
        after: Duration,
        /// Messages without an answer.
        unanswered: usize,
    },
    /// What answers does not speak AMQP 0-9-1 at this port.
    #[error("{address} does not answer as RabbitMQ: {reason}")]
    WrongPort {
        /// `host:port`.
        address: String,
        /// What it is instead, and what to do.
        reason: &'static str,
    },
    /// The peer does not speak AMQP 0-9-1 as RabbitMQ does, or the publisher was used against its contract.
    #[error("AMQP: {0}")]
    Protocol(String),
}

impl PublishError {
    /// Whether the broker is there and says no: another attempt with the same settings fails the same way until an
    /// operator changes something.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Authentication { .. }
                | Self::Vhost { .. }
                | Self::ExchangeMismatch { .. }
                | Self::ExchangeMissing { .. }
                | Self::AccessRefused { .. }
                | Self::MayNotPublish { .. }
        )
    }
}
