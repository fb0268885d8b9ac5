//! A connected socket for another client of the same broker: reached, encrypted and verified in the same way.

use std::time::Duration;

use client_socket::Socket;

use crate::{AmqpUrl, ConnectError, Peer, dial, handshake, url::Mechanism};

/// Who logs in, and where.
pub struct Login<'a> {
    /// The user.
    pub user: &'a str,
    /// The user's password.
    pub password: &'a str,
    /// The virtual host.
    pub vhost: &'a str,
    /// Whether the TLS client certificate says who it is (`EXTERNAL`), and not the password.
    pub by_certificate: bool,
    /// The interval of heartbeats that the client asks for; 0: none.
    pub heartbeat_seconds: u16,
}

impl AmqpUrl {
    /// What the broker is to be told after it was reached.
    pub fn login(&self) -> Login<'_> {
        let by_certificate = self.mechanism == Mechanism::External;
        let heartbeat_seconds = handshake::wanted_heartbeat(self);
        Login { user: &self.user, password: &self.password, vhost: &self.vhost, by_certificate, heartbeat_seconds }
    }

    /// Connects to one of the hosts, and encrypts if the URL says so. Each attempt takes no longer than `limit`, unless the URL's `connection_timeout` says otherwise.
    ///
    /// # Errors
    ///
    /// No host answers, or none in time, or TLS fails.
    pub async fn open(&self, limit: Duration) -> Result<Socket, ConnectError> {
        let limit = self.connection_timeout.unwrap_or(limit);
        let open = async |peer: Peer| handshake::connect(self, &peer).await;
        let (socket, _) = dial::open_any(&self.hosts, None, None, limit, open).await?;
        Ok(socket)
    }
}
