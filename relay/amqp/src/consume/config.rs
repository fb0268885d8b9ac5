//! What a consumer needs to know.

use std::time::Duration;

use crate::connect::{handshake::Client, url::AmqpUrl};

/// What a [`Consumer`](crate::Consumer) needs to know.
#[derive(Clone, Debug)]
pub struct ConsumeConfig {
    /// The broker's nodes, and who logs in.
    pub url: AmqpUrl,
    /// The exchange to take messages from; at most 255 bytes. It must exist.
    pub exchange: String,
    /// Binding keys between the exchange and the queue; each at most 255 bytes.
    pub bindings: Vec<String>,
    /// Name of the queue; at most 255 bytes. It must not exist.
    pub queue: String,
    /// Most messages that wait in the queue. Beyond this the broker drops the oldest.
    pub queue_messages: u32,
    /// Most bytes of bodies that wait in the queue. Beyond this the broker drops the oldest messages.
    pub queue_bytes: u32,
    /// Most unacknowledged messages that the broker sends.
    pub prefetch: u16,
    /// How long connecting to an address may take, up to the first message, and looking up a name. `connection_timeout`
    /// in the URL overrides it.
    pub connect_timeout: Duration,
    /// The connection's name in the broker's management pages.
    pub connection_name: String,
    /// The program's name there.
    pub product: String,
    /// The program's version there.
    pub version: String,
}

impl ConsumeConfig {
    /// What the handshake says of the consumer.
    pub(crate) fn client(&self) -> Client<'_> {
        Client {
            url: &self.url,
            side_channels: 0,
            connection_name: &self.connection_name,
            product: &self.product,
            version: &self.version,
        }
    }
}
