//! Brokers: where events go.

pub(crate) mod link;
pub mod rabbitmq;

use std::{future::Future, sync::Arc};

use outbox_core::{Event, Notice};

use crate::{error::RunError, peer::ServerPeer};

/// What a sink has counted, and what it is connected to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkFigures {
    /// The broker's node, while there is a connection.
    pub connected_to: Option<ServerPeer>,
    /// Why there is none.
    pub error: Option<String>,
    /// Connections that were made after one was lost.
    pub reconnects: u64,
    /// Messages that the broker has confirmed.
    pub confirmed: u64,
    /// Messages for which it had no queue.
    pub returned: u64,
    /// Messages that a queue did not take.
    pub nacked: u64,
    /// Messages that the broker has rejected for good, for what they are, or for where they were to go.
    pub rejected: u64,
}

impl SinkFigures {
    /// Messages that the broker has answered.
    pub(crate) fn answers(&self) -> u64 {
        self.confirmed + self.returned + self.nacked + self.rejected
    }

    /// With what earlier sinks have counted.
    pub(crate) fn after(mut self, past: &Self) -> Self {
        self.reconnects += past.reconnects;
        self.confirmed += past.confirmed;
        self.returned += past.returned;
        self.nacked += past.nacked;
        self.rejected += past.rejected;
        self
    }
}

/// A broker, and the connection to it, which comes back by itself.
///
/// What only one broker knows ends here: how it refuses a message, what it says when it has no room, which message has closed a channel.
pub trait Sink: Send {
    /// Hands events over, to be published in order. Never waits.
    fn publish(&mut self, events: Vec<Arc<Event>>);

    /// Hands events over, each to be published where no other waits behind it. Never waits.
    fn publish_beside(&mut self, events: Vec<Arc<Event>>);

    /// Gives the connection up, which moves no longer, and makes another, to the same node if it can.
    fn connect_anew(&mut self);

    /// Waits for news. Cancellation-safe: what is under way stays in `self`.
    ///
    /// # Errors
    ///
    /// The broker has never let this relay in, and is not to be waited for any longer.
    fn next(&mut self) -> impl Future<Output = Result<Notice, RunError>> + Send;

    /// What it shows of itself.
    fn figures(&self) -> SinkFigures;

    /// Says goodbye to the broker.
    fn close(self) -> impl Future<Output = ()> + Send;
}
