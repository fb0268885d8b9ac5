//! The server at the other end of a connection.

use std::time::Duration;

use amqp_publisher::{Outgoing, Publisher};
use client_socket::Expiry;

/// Renewal is usually automatic, with a third of the time left: of 90 days, 30. What is closer to its end has been forgotten.
pub const EXPIRES_SOON: Duration = Duration::from_secs(21 * 86_400);

/// A server that the relay is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// `host:port` as the setting has it, or a Unix socket's folder and port.
    pub host: String,
    /// The same for people, with the address behind a name.
    pub peer: String,
    /// Until when the certificates of the connection are good.
    pub expiry: Expiry,
}

impl Contact {
    pub(crate) fn with_database(peer: &pg_replication::Peer) -> Self {
        Self { host: peer.host.clone(), peer: peer.to_string(), expiry: peer.expiry }
    }

    pub(crate) fn with_broker<M: Outgoing>(publisher: &Publisher<M>) -> Self {
        let peer = publisher.peer();
        Self { host: peer.host_port(), peer: peer.to_string(), expiry: publisher.expiry() }
    }
}
