//! A PostgreSQL session for tests.

use std::ops::{Deref, DerefMut};

use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

/// A [`tokio_postgres::Client`] whose socket is driven until this is dropped.
pub struct Connection {
    client: Client,
    socket: JoinHandle<()>,
}

impl Connection {
    /// # Panics
    /// When the server refuses; `url` is in the message.
    pub async fn open(url: &str) -> Self {
        Self::try_open(url).await.unwrap_or_else(|e| panic!("cannot connect to {url}: {e:?}"))
    }

    /// Connects, if the server lets us.
    ///
    /// # Errors
    /// What the server or the socket said.
    pub async fn try_open(url: &str) -> Result<Self, tokio_postgres::Error> {
        let (client, socket) = tokio_postgres::connect(url, NoTls).await?;
        let socket = tokio::spawn(async {
            let _ = socket.await; // the client's own calls report a lost connection
        });
        Ok(Self { client, socket })
    }
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.socket.abort();
    }
}
