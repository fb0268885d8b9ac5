//! Brokers, to which events are published.

pub(crate) mod link;
pub mod rabbitmq;

use std::{future::Future, sync::Arc};

use outbox_core::{Event, Notice};

use crate::{error::RunError, peer::ServerPeer};

/// The broker that events go to, with its settings.
#[derive(Clone, Debug)]
pub enum SinkConfig {
    /// RabbitMQ.
    RabbitMq(rabbitmq::Config),
}

/// A sink's counts, and its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkFigures {
    /// The broker's node; `None`: there is no connection.
    pub connected_to: Option<ServerPeer>,
    /// Why there is no connection.
    pub error: Option<String>,
    /// Connections made after the first one.
    pub reconnects: u64,
    /// Messages that the broker has confirmed.
    pub confirmed: u64,
    /// Messages that the broker has returned, because no queue is bound for them.
    pub returned: u64,
    /// Messages that the broker has nacked, because a queue did not take them.
    pub nacked: u64,
    /// Messages that the broker has rejected for good, because of their contents or their destination.
    pub rejected: u64,
}

impl SinkFigures {
    /// Messages that the broker has answered.
    pub(crate) fn answers(&self) -> u64 {
        self.confirmed + self.returned + self.nacked + self.rejected
    }

    /// Adds the counts of earlier sinks.
    pub(crate) fn after(mut self, past: &Self) -> Self {
        self.reconnects += past.reconnects;
        self.confirmed += past.confirmed;
        self.returned += past.returned;
        self.nacked += past.nacked;
        self.rejected += past.rejected;
        self
    }
}

/// A broker and the connection to it, which is made again when it is lost.
///
/// The sink hides what differs between brokers: how one refuses a message, how it reports that it has no room, which
/// message has closed a channel.
pub trait Sink: Send {
    /// Publishes events in order. Never waits.
    fn publish(&mut self, events: Vec<Arc<Event>>);

    /// Publishes events apart from the others, so that no other event waits behind them. Never waits.
    fn publish_beside(&mut self, events: Vec<Arc<Event>>);

    /// Gives up a connection that makes no progress, and makes another, to the same node if possible.
    fn connect_anew(&mut self);

    /// Waits for the next notice. Cancellation-safe: unfinished work stays in `self`.
    ///
    /// # Errors
    ///
    /// The broker has never accepted this relay, and the startup waits no longer.
    fn next(&mut self) -> impl Future<Output = Result<Notice, RunError>> + Send;

    /// The sink's counts, and its connection.
    fn figures(&self) -> SinkFigures;

    /// Closes the connection properly.
    fn close(self) -> impl Future<Output = ()> + Send;
}
