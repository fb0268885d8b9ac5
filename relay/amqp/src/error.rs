//! What can go wrong between a publisher and the broker.

use std::{io, time::Duration};

use client_socket::refused_by_tls;

/// AMQP's reply code for a connection that an operator closes, or a broker that stops.
const CONNECTION_FORCED: u16 = 320;

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
        /// Who tried to log in.
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
    /// The user, the virtual host or the node has all the connections that it may have.
    #[error("the broker takes no more connections: {0}")]
    ConnectionLimit(String),
    /// The user, the connection or the node has all the channels that it may have. After a channel was closed, the broker may not
    /// have counted it off yet.
    #[error("the broker takes no more channels: {0}")]
    ChannelLimit(String),
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
    /// The broker closed the connection: it stops (320), an operator closed it, the virtual host is down or there was another
    /// internal error (541).
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
    /// What answers does not speak AMQP 0-9-1 at this port: what it is instead, and what to do.
    #[error("this does not answer as RabbitMQ: {0}")]
    WrongPort(&'static str),
    /// What answers ended the connection before it said anything.
    #[error(
        "it ends the connection without a word, as a proxy does whose broker is away, a TLS port (then use amqps://), or \
         a port that is not AMQP's"
    )]
    HungUp,
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

    /// For the words of a broker that ends a connection.
    pub(crate) fn connection_closed(code: u16, text: String) -> Self {
        if text.contains("number of channels opened") {
            return Self::ChannelLimit(text); // rabbit_reader: of the user, the connection or the node
        }
        Self::ConnectionClosed { code, text }
    }

    /// Whether a message that was in flight may be the reason why the connection is lost: the broker ended it over something that it
    /// was sent, or it broke. A broker that stops, an operator who closes connections, and silence are no message's doing.
    pub fn may_be_a_message(&self) -> bool {
        match self {
            Self::ConnectionClosed { code, .. } => *code != CONNECTION_FORCED,
            Self::Disconnected(_) | Self::Protocol(_) => true,
            _ => false,
        }
    }

    /// Whether another attempt to connect may do although nobody changes anything: nodes start, networks come back, connections
    /// become free. What TLS or the broker has refused, and a port that is somebody else's, stay as they are.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Setting { .. } | Self::WrongPort(_) => false,
            Self::Tls(error) | Self::Disconnected(error) => !refused_by_tls(error),
            error => !error.is_refusal(),
        }
    }

    /// Whether another host need not be asked: the nodes of a cluster share users, permissions and exchanges.
    pub(crate) fn concerns_all_hosts(&self) -> bool {
        self.is_refusal() || matches!(self, Self::Setting { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_be_the_reason_only_for_what_it_can_have_caused() {
        let text = || "words".to_owned();
        for code in [501, 502, 503, 505, 530, 540, 541] {
            assert!(PublishError::connection_closed(code, text()).may_be_a_message(), "{code}");
        }
        assert!(PublishError::Disconnected(io::ErrorKind::ConnectionReset.into()).may_be_a_message());
        assert!(PublishError::Protocol(text()).may_be_a_message());
        let limit =
            "NOT_ALLOWED - number of channels opened for user 'app' has reached the maximum allowed user limit of (1)";
        for nobodys in [
            PublishError::connection_closed(320, text()),
            PublishError::connection_closed(530, limit.to_owned()),
            PublishError::HeartbeatMissed(Duration::from_secs(20)),
            PublishError::ConfirmTimeout { after: Duration::from_secs(30), unanswered: 1 },
            PublishError::ChannelClosed { code: 406, text: text() },
            PublishError::ExchangeMissing { exchange: text(), text: text() },
            PublishError::AccessRefused { exchange: text(), text: text() },
        ] {
            assert!(!nobodys.may_be_a_message(), "{nobodys:?}");
        }
    }

    #[test]
    fn what_passes_by_itself_is_told_from_what_an_operator_must_repair() {
        let text = || "words".to_owned();
        let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
        for cause in [
            PublishError::Connect(io::ErrorKind::ConnectionRefused.into()),
            PublishError::ConnectTimeout(Duration::from_secs(1)),
            PublishError::Tls(broken()),
            PublishError::Disconnected(broken()),
            PublishError::HungUp,
            PublishError::ConnectionLimit(text()),
            PublishError::ChannelLimit(text()),
            PublishError::ConnectionClosed { code: 541, text: text() },
            PublishError::ConnectionClosed { code: 320, text: text() },
        ] {
            assert!(cause.may_pass() && !cause.is_refusal(), "{cause:?}");
        }
        for cause in [
            PublishError::Setting { name: "exchange", reason: text() },
            PublishError::Authentication { user: text(), text: text() },
            PublishError::Vhost { vhost: text(), code: 530, text: text() },
            PublishError::ExchangeMismatch { exchange: text(), text: text() },
            PublishError::ExchangeMissing { exchange: text(), text: text() },
            PublishError::AccessRefused { exchange: text(), text: text() },
            PublishError::MayNotPublish { exchange: text(), text: text() },
            PublishError::WrongPort("it speaks TLS"),
            PublishError::Tls(io::Error::new(io::ErrorKind::InvalidInput, "the host's name is not valid")),
        ] {
            assert!(!cause.may_pass(), "{cause:?}");
        }
    }
}
