//! A connected socket for another client of the same broker: reached, encrypted and verified in the same way.

use std::time::Duration;

use client_socket::Socket;
use tokio::time::timeout;

use crate::{AmqpUrl, PublishError, handshake, url::Mechanism};

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
}

impl AmqpUrl {
    /// What the broker is to be told after it was reached.
    pub fn login(&self) -> Login<'_> {
        let by_certificate = self.mechanism == Mechanism::External;
        Login { user: &self.user, password: &self.password, vhost: &self.vhost, by_certificate }
    }

    /// Connects, and encrypts if the URL says so. Takes no longer than `limit`, unless the URL's `connection_timeout` says otherwise.
    ///
    /// # Errors
    ///
    /// Nobody answers, or not in time, or TLS fails.
    pub async fn open(&self, limit: Duration) -> Result<Socket, PublishError> {
        let limit = self.connection_timeout.unwrap_or(limit);
        timeout(limit, handshake::connect(self))
            .await
            .unwrap_or_else(|_| Err(PublishError::ConnectTimeout { address: self.address(), after: limit }))
    }
}
