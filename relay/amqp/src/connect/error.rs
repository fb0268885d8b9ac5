//! Errors of a connection to the broker.

use std::{io, time::Duration};

use client_socket::refused_by_tls;

use crate::protocol::wire::Malformed;

/// AMQP's reply code when an operator closes the connection or the broker stops.
const CONNECTION_FORCED: u16 = 320;

const PERMIT: &str = "give its user write permission (rabbitmqctl set_permissions)";
const PERMIT_CONSUMING: &str =
    "the user needs the permission to configure, write and read the queue, and to read from the exchange";

/// Why there is no connection to the broker. No message is known to be at fault: the fate of unconfirmed messages is
/// unknown, and they may be published again.
#[derive(Debug, thiserror::Error)]
pub enum AmqpError {
    /// A setting that cannot be sent as AMQP.
    #[error("{name}: {reason}")]
    Setting {
        /// The field of [`PublishConfig`](crate::PublishConfig) or [`ConsumeConfig`](crate::ConsumeConfig).
        name: &'static str,
        /// What is wrong with the setting.
        reason: String,
    },
    /// Name resolution or the TCP connection failed.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The connection, from TCP to the open channel, was not ready within this time.
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    /// A certificate file is unusable, or the TLS handshake failed.
    #[error("TLS failed")]
    Tls(#[source] io::Error),
    /// User or password is wrong, or the broker offers no mechanism that this client can use.
    #[error("the broker refuses user {user:?}: {text}")]
    Authentication {
        /// The user who tried to log in.
        user: String,
        /// The broker's words.
        text: String,
    },
    /// The virtual host does not exist or is closed to the user.
    #[error("the broker refuses virtual host {vhost:?}: {code} {text}")]
    Vhost {
        /// Name of the virtual host.
        vhost: String,
        /// AMQP reply code, 530 as a rule.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The user, the virtual host or the node has as many connections as permitted.
    #[error("the broker takes no more connections: {0}")]
    ConnectionLimit(String),
    /// The user, the connection or the node has as many channels as permitted. The broker counts a closed channel off
    /// some milliseconds late.
    #[error("the broker takes no more channels: {0}")]
    ChannelLimit(String),
    /// The configured exchange exists, but with another type or other properties than those that are declared (406).
    #[error("exchange {exchange:?} is not what is declared (topic, durable): {text}")]
    ExchangeMismatch {
        /// The exchange's name.
        exchange: String,
        /// The broker's words.
        text: String,
    },
    /// The configured exchange does not exist, and is not to be declared, or not again (404).
    #[error("there is no exchange {exchange:?}: {text}")]
    ExchangeMissing {
        /// The exchange's name.
        exchange: String,
        /// The broker's words.
        text: String,
    },
    /// The user may not declare, publish to or look up the configured exchange (403).
    #[error("the broker does not permit the use of exchange {exchange:?}: {text}")]
    AccessRefused {
        /// The exchange's name.
        exchange: String,
        /// The broker's words.
        text: String,
    },
    /// The user may not publish to the configured exchange (403).
    #[error("the broker does not permit to publish to exchange {exchange:?}: {text}; {PERMIT}")]
    MayNotPublish {
        /// The exchange's name.
        exchange: String,
        /// The broker's words.
        text: String,
    },
    /// The user may not declare a queue of this name, consume from it, or bind it to the exchange (403).
    #[error("the broker does not permit to consume from exchange {exchange:?}: {text}; {PERMIT_CONSUMING}")]
    MayNotConsume {
        /// The exchange's name.
        exchange: String,
        /// The broker's words.
        text: String,
    },
    /// The broker does not say in this time whether the user may publish.
    #[error("the broker does not say within {0:?} whether this user may publish")]
    Unchecked(Duration),
    /// The broker ended the consumer, as when somebody deletes its queue.
    #[error("the broker has ended the queue")]
    Cancelled,
    /// The broker closed the channel, and no message is at fault.
    #[error("the broker closed the channel: {code} {text}")]
    ChannelClosed {
        /// AMQP reply code.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The broker closed the connection: the broker stops or an operator closed it (320), or the virtual host is down
    /// or there was another internal error (541).
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
    /// Nothing came from the broker for two intervals of heartbeats.
    #[error("the broker has been silent for {0:?}: not even a heartbeat came")]
    HeartbeatMissed(Duration),
    /// Messages are in flight, and the broker has confirmed none for the configured time.
    #[error("the broker has confirmed none of {unconfirmed} messages for {after:?}")]
    ConfirmTimeout {
        /// The configured limit.
        after: Duration,
        /// How many messages are unconfirmed.
        unconfirmed: usize,
    },
    /// The server at this port does not speak AMQP 0-9-1. The text says what it is instead, and what to do.
    #[error("this does not confirm as RabbitMQ: {0}")]
    WrongPort(&'static str),
    /// The server ended the connection before it said anything.
    #[error(
        "it ends the connection without a word, as a proxy does whose broker is away, a TLS port (then use amqps://), \
         or a port that is not AMQP's"
    )]
    HungUp,
    /// The peer does not speak AMQP 0-9-1 as RabbitMQ does, or the client was used against its contract.
    #[error("AMQP: {0}")]
    Protocol(String),
}

impl AmqpError {
    /// Whether the broker refuses this client: another attempt with the same settings fails the same way until an
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
                | Self::MayNotConsume { .. }
        )
    }

    /// The error for the words with which a broker ends a connection.
    pub(crate) fn connection_closed(code: u16, text: String) -> Self {
        if text.contains("number of channels opened") {
            return Self::ChannelLimit(text); // rabbit_reader: of the user, the connection or the node
        }
        Self::ConnectionClosed { code, text }
    }

    /// Whether a message in flight may have cost the connection: the broker ended it over something that it got, or it
    /// broke. A broker that stops, an operator who closes connections, and silence are no message's doing.
    pub fn may_be_a_message(&self) -> bool {
        match self {
            Self::ConnectionClosed { code, .. } => *code != CONNECTION_FORCED,
            Self::Disconnected(_) | Self::Protocol(_) => true,
            _ => false,
        }
    }

    /// Whether the error may go away by itself: nodes start, networks come back, connections become free. A refusal by
    /// TLS or by the broker, and another server's port, stay.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Setting { .. } | Self::WrongPort(_) => false,
            Self::Tls(error) | Self::Disconnected(error) => !refused_by_tls(error),
            error => !error.is_refusal(),
        }
    }

    /// Whether every host would give this error: the nodes of a cluster share users, permissions and exchanges.
    pub(crate) fn concerns_all_hosts(&self) -> bool {
        self.is_refusal() || matches!(self, Self::Setting { .. })
    }
}

impl From<Malformed> for AmqpError {
    fn from(malformed: Malformed) -> Self {
        Self::Protocol(malformed.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_be_the_reason_only_for_what_it_can_have_caused() {
        let text = || "words".to_owned();
        for code in [501, 502, 503, 505, 530, 540, 541] {
            assert!(AmqpError::connection_closed(code, text()).may_be_a_message(), "{code}");
        }
        assert!(AmqpError::Disconnected(io::ErrorKind::ConnectionReset.into()).may_be_a_message());
        assert!(AmqpError::Protocol(text()).may_be_a_message());
        let limit =
            "NOT_ALLOWED - number of channels opened for user 'app' has reached the maximum allowed user limit of (1)";
        for nobodys in [
            AmqpError::connection_closed(320, text()),
            AmqpError::connection_closed(530, limit.to_owned()),
            AmqpError::HeartbeatMissed(Duration::from_secs(20)),
            AmqpError::ConfirmTimeout { after: Duration::from_secs(30), unconfirmed: 1 },
            AmqpError::ChannelClosed { code: 406, text: text() },
            AmqpError::ExchangeMissing { exchange: text(), text: text() },
            AmqpError::AccessRefused { exchange: text(), text: text() },
        ] {
            assert!(!nobodys.may_be_a_message(), "{nobodys:?}");
        }
    }

    #[test]
    fn transient_errors_are_told_from_those_that_an_operator_must_repair() {
        let text = || "words".to_owned();
        let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
        for cause in [
            AmqpError::Connect(io::ErrorKind::ConnectionRefused.into()),
            AmqpError::ConnectTimeout(Duration::from_secs(1)),
            AmqpError::Tls(broken()),
            AmqpError::Disconnected(broken()),
            AmqpError::HungUp,
            AmqpError::ConnectionLimit(text()),
            AmqpError::ChannelLimit(text()),
            AmqpError::ConnectionClosed { code: 541, text: text() },
            AmqpError::ConnectionClosed { code: 320, text: text() },
        ] {
            assert!(cause.is_transient() && !cause.is_refusal(), "{cause:?}");
        }
        for cause in [
            AmqpError::Setting { name: "exchange", reason: text() },
            AmqpError::Authentication { user: text(), text: text() },
            AmqpError::Vhost { vhost: text(), code: 530, text: text() },
            AmqpError::ExchangeMismatch { exchange: text(), text: text() },
            AmqpError::ExchangeMissing { exchange: text(), text: text() },
            AmqpError::AccessRefused { exchange: text(), text: text() },
            AmqpError::MayNotPublish { exchange: text(), text: text() },
            AmqpError::MayNotConsume { exchange: text(), text: text() },
            AmqpError::WrongPort("it speaks TLS"),
            AmqpError::Tls(io::Error::new(io::ErrorKind::InvalidInput, "the host's name is not valid")),
        ] {
            assert!(!cause.is_transient(), "{cause:?}");
        }
    }
}
