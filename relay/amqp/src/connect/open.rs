//! A connected socket without a login: reached, encrypted and verified as a client's is.

use std::time::Duration;

use client_socket::Socket;

use super::{
    connect_error::ConnectError,
    dial::{Peer, open_any},
    handshake,
    url::AmqpUrl,
};

impl AmqpUrl {
    /// Connects to one of the hosts, and encrypts if the URL says so. Each attempt takes at most `limit`, or the URL's
    /// `connection_timeout`.
    ///
    /// # Errors
    ///
    /// No host answers, or none in time, or TLS fails.
    pub async fn open(&self, limit: Duration) -> Result<Socket, ConnectError> {
        let limit = self.connection_timeout.unwrap_or(limit);
        let open = async |peer: Peer| handshake::connect(self, &peer).await;
        let (socket, _) = open_any(&self.hosts, None, None, limit, open).await?;
        Ok(socket)
    }
}
