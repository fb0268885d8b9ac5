//! What a producer needs to know.

use std::time::Duration;

use client_socket::TlsOptions;

/// A broker's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// Name or address; an IPv6 address without its brackets.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// `host:port`.
impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// Who logs in, by which mechanism. `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// User and password.
    Plain(String, String),
    /// User and password, which does not leave the client.
    ScramSha256(String, String),
    /// User and password, which does not leave the client.
    ScramSha512(String, String),
    /// A token of OAuth 2.
    OAuthBearer(String),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.mechanism())
    }
}

impl Login {
    /// The mechanism's name in SASL.
    pub(crate) fn mechanism(&self) -> &'static str {
        match self {
            Self::Plain(..) => "PLAIN",
            Self::ScramSha256(..) => "SCRAM-SHA-256",
            Self::ScramSha512(..) => "SCRAM-SHA-512",
            Self::OAuthBearer(_) => "OAUTHBEARER",
        }
    }
}

/// What a [`Producer`](crate::Producer) needs to know.
#[derive(Clone, Debug)]
pub struct ProduceConfig {
    /// Brokers of the cluster, which name the others; at least one.
    pub hosts: Vec<Host>,
    /// How the connections are encrypted; `None`: they are not.
    pub tls: Option<TlsOptions>,
    /// Who logs in; `None`: nobody.
    pub login: Option<Login>,
    /// The client's name in the broker's log and quotas.
    pub client_id: String,
    /// The name under which the cluster keeps the producer's id, and counts its epoch up each time that a producer
    /// connects with it. The user needs the right WRITE on this transactional id, although no transaction is made.
    /// `None`, or without the right: each producer has an id of its own, and an earlier one goes on writing.
    pub identity: Option<String>,
    /// Whether records with the same key and topic are confirmed in their order, and none is written behind one that
    /// was not.
    pub keeps_order: bool,
    /// How long all brokers may confirm nothing while records are in flight.
    pub confirm_timeout: Duration,
    /// Time limit of an attempt to connect to a broker, with its login, and of each answer about the cluster.
    pub connect_timeout: Duration,
}
