//! What a publisher needs to know.

use std::{net::SocketAddr, time::Duration};

use crate::connect::{dial::Peer, handshake::Client, url::AmqpUrl};

/// What a [`Publisher`](crate::Publisher) needs to know.
#[derive(Clone, Debug)]
pub struct PublishConfig {
    /// The broker's nodes, and who logs in.
    pub url: AmqpUrl,
    /// A node to try before all others, such as the node whose connection the caller has just given up.
    pub try_first: Option<Peer>,
    /// A node to try after all others, such as the node from which a connection was just lost.
    pub try_last: Option<SocketAddr>,
    /// Exchange of messages that name none; at most 255 bytes. Empty: the default exchange, which routes by queue name.
    pub exchange: String,
    /// Whether to declare the exchange.
    pub exchange_use: ExchangeUse,
    /// AMQP `app_id` of every message; at most 255 bytes. Empty: none.
    pub app_id: String,
    /// Most unconfirmed messages on the main channel.
    pub window: usize,
    /// Most side channels ([`publish_beside`](crate::Publisher::publish_beside)); fewer, if the broker allows fewer
    /// channels.
    pub side_channels: u16,
    /// How long the broker may confirm nothing at all, unless it says that it is blocked.
    pub confirm_timeout: Duration,
    /// How long connecting to an address may take, up to the open channel, and looking up a name. `connection_timeout`
    /// in the URL overrides it.
    pub connect_timeout: Duration,
    /// How long to wait, after the broker has closed a channel, before another is opened on the connection. The broker
    /// counts a closed channel off some milliseconds late, and ends the connection of a user with more channels than
    /// permitted ([`AmqpError::ChannelLimit`](crate::AmqpError::ChannelLimit)).
    pub reopen_after: Duration,
    /// Whether to publish first a message that no queue gets, and to wait until the broker has returned it
    /// ([`is_proven`](crate::Publisher::is_proven)).
    pub prove: bool,
    /// The connection's name in the broker's management pages.
    pub connection_name: String,
    /// The program's name there.
    pub product: String,
    /// The program's version there.
    pub version: String,
}

impl PublishConfig {
    /// What the handshake says of the publisher.
    pub(crate) fn client(&self) -> Client<'_> {
        Client {
            url: &self.url,
            side_channels: self.side_channels,
            connection_name: &self.connection_name,
            product: &self.product,
            version: &self.version,
        }
    }
}

/// What to do about the exchange when connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeUse {
    /// Take the exchange as it is, of whatever type. It must exist.
    Take,
    /// Declare the exchange: topic, durable.
    Declare,
    /// The exchange was declared before. It must still exist, as it was declared.
    Expect,
}
