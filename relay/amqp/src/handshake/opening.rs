//! From an open vhost to an open channel in confirm mode: the exchange, whether this user may publish to it, and
//! whether the broker takes messages at all.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Handshake, unexpected};
use crate::{
    ExchangeUse, PublishConfig, PublishError,
    frame::Content,
    method::{self, CHANNEL, Method},
};

impl<S: AsyncRead + AsyncWrite + Unpin> Handshake<S> {
    /// Returns whether the broker has taken a message and sent it back, if it is asked.
    pub(super) async fn open_channel(&mut self, config: &PublishConfig) -> Result<bool, PublishError> {
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
            self.check_permission(config).await?;
        }
        let is_proven = config.prove && self.prove(config.reopen_after).await?;
        method::confirm_select(&mut self.out, CHANNEL);
        self.ask_for(&Method::SelectOk).await?;
        Ok(is_proven)
    }

    async fn exchange_declared(&mut self, exchange: &str) -> Result<(), PublishError> {
        let exchange = exchange.to_owned();
        match self.ask().await? {
            Method::DeclareOk => Ok(()),
            Method::ChannelClose { code, text } => {
                method::channel_close_ok(&mut self.out, CHANNEL);
                Err(match code {
                    403 => PublishError::AccessRefused { exchange, text },
                    404 => PublishError::ExchangeMissing { exchange, text },
                    406 => PublishError::ExchangeMismatch { exchange, text },
                    code => PublishError::ChannelClosed { code, text },
                })
            }
            other => Err(unexpected(other)),
        }
    }

    /// Looks whether the user may publish to the exchange, before a message has to find out. To end a binding, the
    /// broker wants permission to write to the exchange that gets the messages, and then to read from the one they come
    /// from. The binding that is named here does not exist, so nothing changes.
    async fn check_permission(&mut self, config: &PublishConfig) -> Result<(), PublishError> {
        let exchange = config.exchange.as_str();
        // Two exchanges that are always there. Not the same as the other: which permission is missing, RabbitMQ says
        // since version 3.12 only, but for which exchange it always has.
        let source = if exchange == "amq.topic" { "amq.direct" } else { "amq.topic" };
        method::unbind_exchange(&mut self.out, exchange, source, "may this user publish?");
        match self.ask().await? {
            Method::UnbindOk => return Ok(()),
            Method::ChannelClose { code: 403, text } if text.contains(&format!("exchange '{exchange}'")) => {
                method::channel_close_ok(&mut self.out, CHANNEL);
                return Err(PublishError::MayNotPublish { exchange: exchange.to_owned(), text });
            }
            Method::ChannelClose { .. } => method::channel_close_ok(&mut self.out, CHANNEL),
            other => return Err(unexpected(other)),
        }
        self.reopen_channel(config.reopen_after).await
    }

    /// Publishes a message that no queue gets, since the default exchange routes by their names, and waits until it
    /// comes back. Not in confirm mode yet, in which the message would have a delivery tag. Returns `false` if this
    /// user may not publish there.
    async fn prove(&mut self, reopen_after: Duration) -> Result<bool, PublishError> {
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
            // It reads nothing more from this connection until its alarm is over.
            Method::Blocked { reason } => {
                return Err(PublishError::Protocol(format!("publishing is blocked ({reason})")));
            }
            other => return Err(unexpected(other)),
        }
        match self.next_content().await? {
            Content::Header { body: 0, .. } => Ok(true),
            other => Err(PublishError::Protocol(format!("{other:?} was not expected"))),
        }
    }

    /// Opens another channel, once the broker can have counted the one off that it has closed.
    async fn reopen_channel(&mut self, after: Duration) -> Result<(), PublishError> {
        self.send().await.map_err(PublishError::Disconnected)?;
        if !after.is_zero() {
            tokio::time::sleep(after).await;
        }
        method::channel_open(&mut self.out, CHANNEL);
        self.ask_for(&Method::ChannelOpenOk).await
    }
}
