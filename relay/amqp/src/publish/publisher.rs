//! The caller's side of the connection.

use std::fmt;

use client_socket::Expiry;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel, error::TrySendError},
    task::JoinSet,
};

use super::{
    config::PublishConfig,
    confirm::News,
    connection::{Connection, Handed},
    message::Outgoing,
    opening,
};
use crate::connect::{
    connect_error::{ConnectError, check_lengths},
    dial::{Peer, open_any},
    error::AmqpError,
};

/// A connection to the broker over which messages are published. Dropping it ends the connection at once.
pub struct Publisher<M> {
    batches: Sender<Handed<M>>,
    news: Receiver<News>,
    /// The one task that owns the socket.
    task: JoinSet<Result<(), AmqpError>>,
    peer: Peer,
    expiry: Expiry,
    is_proven: bool,
    side_channels: u16,
}

impl<M> fmt::Debug for Publisher<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl<M: Outgoing> Publisher<M> {
    /// Connects, logs in, opens a channel, declares the exchange or looks whether it is there, and asks for confirms.
    ///
    /// Tries the hosts of the URL, and every address of each, in random order until one lets the publisher in. A host
    /// that refuses the user, the virtual host or the exchange decides for all.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub async fn connect(config: PublishConfig) -> Result<Self, ConnectError> {
        check_lengths(&config.url, [("exchange", config.exchange.as_str()), ("app_id", &config.app_id)])?;
        let limit = config.url.connection_timeout.unwrap_or(config.connect_timeout);
        let open = |peer| opening::open(&config, peer);
        let ((opened, is_proven), peer) =
            open_any(&config.url.hosts, config.try_first.as_ref(), config.try_last, limit, open).await?;
        // Every batch has at least one message. At most `window` are unconfirmed on the main channel, and one on each
        // side channel, or one if there is no side channel: there is always room.
        let (batches, batch_receiver) = channel(config.window.max(1) + usize::from(opened.side_channels.max(1)));
        // One is enough: the task collects confirms until the caller has fetched the previous ones.
        let (news_sender, news) = channel(1);
        let (expiry, side_channels) = (opened.socket.expiry(), opened.side_channels);
        let mut task = JoinSet::new();
        task.spawn(Connection::new(opened, config).run(batch_receiver, news_sender));
        Ok(Self { batches, news, task, peer, expiry, is_proven, side_channels })
    }

    /// The node at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Until when the certificates of the connection are valid.
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// Whether the broker has taken a first message over this connection and returned it, as [`PublishConfig::prove`]
    /// asks. A user who may not publish to the default exchange gets `false`.
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Side channels that the broker grants, at most as many as [`PublishConfig::side_channels`] asks for.
    pub fn side_channels(&self) -> u16 {
        self.side_channels
    }

    /// Hands messages over, to be published in order. Never waits: the caller keeps at most `window` messages
    /// unconfirmed, and messages beyond that wait until earlier ones are confirmed. Messages that are handed over after
    /// the connection was lost, or in more batches than `window`, get no confirm: [`News::Lost`] says so.
    pub fn publish(&mut self, batch: Vec<M>) {
        if batch.is_empty() {
            return;
        }
        self.hand_over(Handed::Batch(batch));
    }

    /// Hands a message over, to be published on a side channel, where no other waits behind it. Never waits: the caller
    /// keeps at most [`side_channels`](Self::side_channels) such messages unconfirmed. Without side channels, one
    /// message leaves on the main channel.
    pub fn publish_beside(&mut self, message: M) {
        self.hand_over(Handed::Beside(message));
    }

    fn hand_over(&mut self, handed: Handed<M>) {
        match self.batches.try_send(handed) {
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => self.task.abort_all(),
        }
    }

    /// Waits for news. Cancellation-safe. After [`News::Lost`] there is none.
    pub async fn next(&mut self) -> News {
        if let Some(news) = self.news.recv().await {
            return news;
        }
        let error = match self.task.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(()))) => AmqpError::Protocol("the connection was closed".to_owned()),
            Some(Err(ended)) if ended.is_cancelled() => {
                AmqpError::Protocol("more messages were handed over than the window allows".to_owned())
            }
            Some(Err(ended)) => AmqpError::Protocol(format!("the connection's task failed: {ended}")),
            None => return std::future::pending().await,
        };
        News::Lost(error)
    }

    /// Says goodbye to the broker; takes a second at most. Confirms that have not been fetched are lost.
    pub async fn close(self) {
        let Self { batches, news, mut task, .. } = self;
        drop((batches, news));
        task.join_next().await;
    }
}
