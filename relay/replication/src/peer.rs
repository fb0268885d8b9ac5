//! The server at the other end of a connection.

use std::{fmt, net::IpAddr};

use client_socket::{Expiry, Socket};

use crate::dial::Target;

/// The server at the other end of a connection: one of the hosts of a connection string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// `host:port` as the connection string has it, or a Unix socket's folder and port.
    pub host: String,
    /// The address behind a name; `None` if the host is an address or a Unix socket.
    pub address: Option<IpAddr>,
    /// Until when the certificates of the connection are valid.
    pub expiry: Expiry,
}

impl Peer {
    pub(crate) fn new(target: &Target, socket: &Socket) -> Self {
        let address = match target {
            Target::Tcp { name, .. } => {
                socket.peer_address().map(|peer| peer.ip()).filter(|address| name.parse() != Ok(*address))
            }
            Target::Unix { .. } => None,
        };
        Self { host: target.to_string(), address, expiry: socket.expiry() }
    }
}

/// `host:port`, and the address behind a name: `db.example:5432 (10.0.0.7)`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{} ({address})", self.host),
            None => f.write_str(&self.host),
        }
    }
}
