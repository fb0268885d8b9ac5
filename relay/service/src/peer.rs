//! The server at the other end of a connection.

use std::time::Duration;

use client_socket::Expiry;

/// A certificate that expires within this time is reported. Automatic renewal usually comes with a third of the
/// lifetime left, 30 of 90 days, so a certificate this close to its end was not renewed.
pub const EXPIRES_SOON: Duration = Duration::from_hours(21 * 24);

/// A server that the relay is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPeer {
    /// `host:port` as in the setting, or a Unix socket's folder and port.
    pub host: String,
    /// The host with its port, and the IP address behind a name, for people.
    pub description: String,
    /// Until when the certificates of the connection are valid.
    pub expiry: Expiry,
}

impl ServerPeer {
    pub(crate) fn with_database(peer: &pg_replication::Peer) -> Self {
        Self { host: peer.host.clone(), description: peer.to_string(), expiry: peer.expiry }
    }
}
