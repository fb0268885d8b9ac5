//! The caller's side of the connection: what to know, what to hand over, what comes back.

use std::{fmt, net::SocketAddr, time::Duration};

use client_socket::Expiry;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel, error::TrySendError},
    task::JoinSet,
};
use uuid::Uuid;

use crate::{
    AmqpUrl, Outgoing, PublishError,
    connect_error::{ConnectError, Failure},
    connection::Connection,
    dial::{Peer, open_any},
    handshake,
    wire::SHORT_STRING_MAX,
};

/// What a [`Publisher`] needs to know.
#[derive(Clone, Debug)]
pub struct PublishConfig {
    /// The broker's nodes, and who logs in.
    pub url: AmqpUrl,
    /// A node to try before all others, such as the one whose connection the caller has just given up.
    pub try_first: Option<Peer>,
    /// A node to try after all others, such as the one from which a connection was just lost.
    pub try_last: Option<SocketAddr>,
    /// Exchange of messages that name none; at most 255 bytes. Empty: the default exchange, which routes by queue name.
    pub exchange: String,
    /// Whether to declare it.
    pub exchange_use: ExchangeUse,
    /// AMQP `app_id` of every message; at most 255 bytes. Empty: none.
    pub app_id: String,
    /// Most messages without an answer on the main channel.
    pub window: usize,
    /// Most side channels ([`Publisher::publish_beside`]); fewer, if the broker allows fewer channels.
    pub side_channels: u16,
    /// How long the broker may leave everything unanswered while it does not say that it is blocked.
    pub confirm_timeout: Duration,
    /// How long connecting to an address may take, up to the open channel, and looking up a name. `connection_timeout` in the URL
    /// overrides it.
    pub connect_timeout: Duration,
    /// How long to wait, after the broker has closed a channel, before another is opened on the connection. The broker counts a
    /// closed channel off some milliseconds late, and ends the connection of a user who has more channels than permitted
    /// ([`PublishError::ChannelLimit`]).
    pub reopen_after: Duration,
    /// Whether to publish a message that no queue gets before any other, and to wait until the broker has sent it back
    /// ([`Publisher::is_proven`]).
    pub prove: bool,
    /// The connection's name in the broker's management pages.
    pub connection_name: String,
    /// The program's name there.
    pub product: String,
    /// The program's version there.
    pub version: String,
}

/// What to do about the exchange when connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeUse {
    /// Take it as it is, of whatever type. It must be there.
    Take,
    /// Declare it: topic, durable.
    Declare,
    /// It was declared before. It must still be there, as it was declared.
    Expect,
}

/// News from the broker.
#[derive(Debug)]
pub enum Notice {
    /// Verdicts, in the order in which the broker gave them.
    Answers(Vec<Answer>),
    /// The broker takes no messages for now: out of memory or disk. What is handed over waits.
    Blocked {
        /// The broker's words.
        reason: String,
    },
    /// It takes messages again.
    Unblocked,
    /// The connection is gone. Nothing more will come, and whatever has no answer is unknown.
    Lost(PublishError),
}

/// The broker's word about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The message: its [`Outgoing::id`].
    pub id: Uuid,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every queue it was routed to has it, safely; there was at least one.
    Confirmed,
    /// No queue is bound for it.
    Returned {
        /// AMQP reply code: 312, NO_ROUTE.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// A queue refused it or failed.
    Nacked,
    /// It is no message that this broker takes: too large, for an exchange that is missing or forbidden, or not AMQP.
    Refused {
        /// AMQP reply code.
        code: u16,
        /// The broker's words, or what would not fit.
        text: String,
    },
}

/// What the caller has handed over.
pub(crate) enum Handed<M> {
    /// For the main channel.
    Batch(Vec<M>),
    /// For a side channel.
    Beside(M),
}

/// A connection to the broker over which messages are published. Dropping it ends the connection at once.
pub struct Publisher<M> {
    batches: Sender<Handed<M>>,
    notices: Receiver<Notice>,
    /// The one task that owns the socket.
    task: JoinSet<Result<(), PublishError>>,
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
    /// Tries the hosts of the URL, and of each every address, in random order until one lets the publisher in. A host that refuses
    /// the user, the virtual host or the exchange decides for all.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub async fn connect(config: PublishConfig) -> Result<Self, ConnectError> {
        for (name, text) in [("exchange", &config.exchange), ("app_id", &config.app_id)] {
            if text.len() > SHORT_STRING_MAX {
                let reason = format!("has {} bytes, AMQP allows {SHORT_STRING_MAX}", text.len());
                let cause = PublishError::Setting { name, reason };
                return Err(ConnectError { failures: vec![Failure { host: config.url.to_string(), cause }] });
            }
        }
        let limit = config.url.connection_timeout.unwrap_or(config.connect_timeout);
        let open = |peer| handshake::open(&config, peer);
        let (opened, peer) =
            open_any(&config.url.hosts, config.try_first.as_ref(), config.try_last, limit, open).await?;
        // Every batch has at least one message. At most `window` are unanswered on the main channel, and one on each
        // side channel, or one for want of any: there is always room.
        let (batches, batch_receiver) = channel(config.window.max(1) + usize::from(opened.side_channels.max(1)));
        // One is enough: the task collects answers for as long as the last are not fetched.
        let (notice_sender, notices) = channel(1);
        let (expiry, is_proven, side_channels) = (opened.socket.expiry(), opened.is_proven, opened.side_channels);
        let mut task = JoinSet::new();
        task.spawn(Connection::new(opened, config).run(batch_receiver, notice_sender));
        Ok(Self { batches, notices, task, peer, expiry, is_proven, side_channels })
    }

    /// The node that it is connected to.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Until when the certificates of the connection are good.
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// Whether the broker has taken a message over this connection before any of yours, and sent it back, as
    /// [`PublishConfig::prove`] asks. It may not, as when this user must not publish to the default exchange.
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Side channels that the broker grants, at most as many as [`PublishConfig::side_channels`] asks for.
    pub fn side_channels(&self) -> u16 {
        self.side_channels
    }

    /// Hands messages over, to be published in order. Never waits: the caller keeps at most `window` messages unanswered.
    /// Messages beyond that wait until earlier ones are answered. Messages that are handed over after the connection was lost, or in
    /// more batches than `window`, get no answer: [`Notice::Lost`] says so.
    pub fn publish(&mut self, batch: Vec<M>) {
        if batch.is_empty() {
            return;
        }
        self.hand_over(Handed::Batch(batch));
    }

    /// Hands a message over, to be published on a side channel, where no other waits behind it. Never waits: the caller
    /// keeps at most [`side_channels`](Self::side_channels) such messages unanswered. If there are none, one message
    /// leaves on the main channel.
    pub fn publish_beside(&mut self, message: M) {
        self.hand_over(Handed::Beside(message));
    }

    fn hand_over(&mut self, handed: Handed<M>) {
        match self.batches.try_send(handed) {
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(_)) => self.task.abort_all(),
        }
    }

    /// Waits for news. Cancellation-safe. After [`Notice::Lost`] there is none.
    pub async fn next(&mut self) -> Notice {
        if let Some(notice) = self.notices.recv().await {
            return notice;
        }
        let error = match self.task.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(()))) => PublishError::Protocol("the connection was closed".to_owned()),
            Some(Err(ended)) if ended.is_cancelled() => {
                PublishError::Protocol("more messages were handed over than the window allows".to_owned())
            }
            Some(Err(ended)) => PublishError::Protocol(format!("the connection's task failed: {ended}")),
            None => return std::future::pending().await,
        };
        Notice::Lost(error)
    }

    /// Says goodbye to the broker; takes a second at most. Answers that have not been fetched are lost.
    pub async fn close(self) {
        let Self { batches, notices, mut task, .. } = self;
        drop((batches, notices));
        task.join_next().await;
    }
}
