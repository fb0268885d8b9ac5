//! From a node's address to an open channel in confirm mode: the exchange, whether this user may publish to it, and
//! whether the broker takes messages at all.
//!
//! ```text
//! channel.open ─▶ ◀─ ok    exchange.declare ─▶ ◀─ ok      exchange.unbind ─▶ ◀─ ok    confirm.select ─▶ ◀─ ok
//! ```

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use super::config::{ExchangeUse, PublishConfig};
use crate::{
    connect::{
        dial::Peer,
        error::AmqpError,
        handshake::{Handshake, Opened, connect, shake_hands, unexpected},
    },
    protocol::{
        frame::Content,
        method::{self, CHANNEL, Method},
    },
};

/// How long the broker has to say whether the user may publish. RabbitMQ 4.3 keeps bindings in a store that answers
/// nothing while most nodes of the cluster are away, and its queues go on.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether to check that the user may publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// [`AmqpError::Unchecked`], if the broker does not say so within this time; `None`: however long it takes.
    Within(Option<Duration>),
    Never,
}

/// Connects to the node and opens the channel, without a time limit. Returns whether the connection is proven, too.
pub(crate) async fn open(config: &PublishConfig, peer: Peer) -> Result<(Opened, bool), AmqpError> {
    let open = async |check: Check| {
        let socket = connect(&config.url, &peer).await?;
        shake_hands(&config.client(), socket, async |handshake| handshake.open_channel(config, check).await).await
    };
    match open(Check::Within(Some(PATIENCE))).await {
        Err(AmqpError::Unchecked(_)) => open(Check::Never).await, // the channel would answer nothing more
        opened => opened,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Handshake<S> {
    /// Opens the channel. Returns whether the broker has taken a message and returned it, as [`PublishConfig::prove`]
    /// asks.
    pub(crate) async fn open_channel(&mut self, config: &PublishConfig, check: Check) -> Result<bool, AmqpError> {
        method::channel_open(&mut self.out, CHANNEL);
        self.ask_for(&Method::ChannelOpenOk).await?;
        // AMQP's default exchange, the one without a name, always exists and cannot be declared.
        if !config.exchange.is_empty() {
            if config.exchange_use != ExchangeUse::Declare {
                method::declare_exchange(&mut self.out, &config.exchange, true);
                self.exchange_declared(&config.exchange).await?;
            }
            if config.exchange_use != ExchangeUse::Take {
                method::declare_exchange(&mut self.out, &config.exchange, false);
                self.exchange_declared(&config.exchange).await?;
            }
            self.check_permission(config, check).await?;
        }
        let is_proven = config.prove && self.prove(config.reopen_after).await?;
        method::confirm_select(&mut self.out, CHANNEL);
        self.ask_for(&Method::SelectOk).await?;
        Ok(is_proven)
    }

    async fn exchange_declared(&mut self, exchange: &str) -> Result<(), AmqpError> {
        let exchange = exchange.to_owned();
        match self.ask().await? {
            Method::DeclareOk => Ok(()),
            Method::ChannelClose { code, text } => {
                method::channel_close_ok(&mut self.out, CHANNEL);
                Err(match code {
                    403 => AmqpError::AccessRefused { exchange, text },
                    404 => AmqpError::ExchangeMissing { exchange, text },
                    406 => AmqpError::ExchangeMismatch { exchange, text },
                    code => AmqpError::ChannelClosed { code, text },
                })
            }
            other => Err(unexpected(other)),
        }
    }

    /// Checks that the user may publish to the exchange, before a message has to find out. To remove a binding, the
    /// broker asks for permission to write to the destination, and then for permission to read from the source; the
    /// binding that is named here does not exist, so nothing changes.
    async fn check_permission(&mut self, config: &PublishConfig, check: Check) -> Result<(), AmqpError> {
        if check == Check::Never {
            return Ok(());
        }
        let exchange = config.exchange.as_str();
        // Both exchanges always exist. The source differs from the destination, because RabbitMQ before 3.12 names only
        // the exchange that a missing permission is for, and not the permission.
        let source = if exchange == "amq.topic" { "amq.direct" } else { "amq.topic" };
        method::unbind_exchange(&mut self.out, exchange, source, "may this user publish?");
        let said = match check {
            Check::Within(Some(limit)) => timeout(limit, self.ask()).await.unwrap_or(Err(AmqpError::Unchecked(limit))),
            _ => self.ask().await,
        };
        match said? {
            Method::UnbindOk => return Ok(()),
            Method::ChannelClose { code: 403, text } if text.contains(&format!("exchange '{exchange}'")) => {
                method::channel_close_ok(&mut self.out, CHANNEL);
                return Err(AmqpError::MayNotPublish { exchange: exchange.to_owned(), text });
            }
            Method::ChannelClose { .. } => method::channel_close_ok(&mut self.out, CHANNEL),
            other => return Err(unexpected(other)),
        }
        self.reopen_channel(config.reopen_after).await
    }

    /// Publishes a message to a queue that does not exist, and waits until the broker returns it. Returns `false` if
    /// this user may not publish to the default exchange. The channel is not in confirm mode yet, so the message has no
    /// delivery tag.
    async fn prove(&mut self, reopen_after: Duration) -> Result<bool, AmqpError> {
        let routing_key = format!("outbox-relay.proof.{:032x}", fastrand::u128(..));
        method::publish(&mut self.out, CHANNEL, b"", routing_key.as_bytes());
        method::empty_content(&mut self.out);
        match self.ask().await? {
            Method::Return { .. } => {}
            Method::ChannelClose { .. } => {
                method::channel_close_ok(&mut self.out, CHANNEL);
                self.reopen_channel(reopen_after).await?;
                return Ok(false);
            }
            // The broker reads nothing more from this connection until its alarm is over.
            Method::Blocked { reason } => {
                return Err(AmqpError::Protocol(format!("publishing is blocked ({reason})")));
            }
            other => return Err(unexpected(other)),
        }
        match self.next_content().await? {
            Content::Header { body: 0, .. } => Ok(true),
            other => Err(AmqpError::Protocol(format!("{other:?} was not expected"))),
        }
    }

    /// Opens another channel, once the broker has had time to count the closed one off.
    async fn reopen_channel(&mut self, after: Duration) -> Result<(), AmqpError> {
        self.send().await.map_err(AmqpError::Disconnected)?;
        if !after.is_zero() {
            tokio::time::sleep(after).await;
        }
        method::channel_open(&mut self.out, CHANNEL);
        self.ask_for(&Method::ChannelOpenOk).await
    }
}
