//! What differs between brokers: how the relay connects to one, and what its answers mean.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use outbox_core::{Abilities, Event, Older};

use super::{Answer, BrokerKind, Spans};
use crate::{address::BadFile, config::Config, error::RunError, peer::ServerPeer};

/// A running attempt to connect.
pub(crate) type Attempt<C> =
    Pin<Box<dyn Future<Output = Result<<C as Connect>::Connection, <C as Connect>::Error>> + Send>>;

/// How the relay connects to one kind of broker, and what the broker's answers mean.
pub trait Connect: Send + Sized {
    /// The broker's names and hints.
    const KIND: &'static BrokerKind;

    /// An open connection.
    type Connection: Send;
    /// Why no connection was made.
    type Error: Send;
    /// Why a connection has ended.
    type Loss: Send;

    /// A broker as configured, not connected yet.
    ///
    /// # Errors
    ///
    /// A setting is missing, or its file contains no address.
    fn new(config: &Config, spans: Spans) -> Result<Self, RunError>;

    /// Begins an attempt to connect. `is_first`: this process has not been connected before.
    ///
    /// # Errors
    ///
    /// The address is in a file that contains none at the moment.
    fn connect(&mut self, is_first: bool) -> Result<Attempt<Self>, BadFile>;

    /// Takes note of a new connection.
    fn opened(&mut self, connection: &Self::Connection) -> Opened;

    /// Takes note of a failed attempt. `since`: when this process first tried.
    fn failed(&mut self, error: &Self::Error, since: Instant) -> Failed;

    /// The error that ends the relay, if this one comes during the startup and is not waited for.
    fn end_of_start(&self, error: &Self::Error) -> RunError;

    /// Waits for the broker's next answer. Cancellation-safe.
    fn next(&mut self, connection: &mut Self::Connection) -> impl Future<Output = Heard<Self::Loss>> + Send;

    /// Takes note of a connection that has ended by itself, after the time `lived`.
    fn lost(&mut self, connection: Self::Connection, loss: &Self::Loss, lived: Duration) -> Lost;

    /// Drops a connection that the relay gives up for the reason `why`.
    fn given_up(&mut self, connection: Self::Connection, why: &'static str);

    /// As [`Sink::abilities`](super::Sink::abilities).
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// The relay has taken over, and publishes under this name from now on. No two relays at work have the same.
    fn begin(&mut self, _name: String) {}

    /// As [`Sink::read_back`](super::Sink::read_back).
    fn read_back(&mut self, _since_us: Option<i64>, _older: Older) {}

    /// Publishes events in order. Never waits.
    fn publish(&mut self, connection: &mut Self::Connection, events: Vec<Arc<Event>>);

    /// Publishes events on side channels, so that no other event waits behind them. Never waits.
    fn publish_beside(&mut self, connection: &mut Self::Connection, events: Vec<Arc<Event>>);

    /// Closes the connection properly.
    fn close(connection: Self::Connection) -> impl Future<Output = ()> + Send;
}

/// A new connection.
pub struct Opened {
    /// The node at the other end.
    pub peer: ServerPeer,
    /// Whether the broker has taken a message over the connection already.
    pub is_proven: bool,
    /// Whether the broker no longer knows the earlier connections of this sink.
    pub is_new_identity: bool,
    /// Number of side channels that the connection has.
    pub side_channels: usize,
}

/// A failed attempt to connect.
pub struct Failed {
    /// The hosts with their errors, in one line.
    pub why: String,
    /// Whether another attempt may succeed.
    pub is_transient: bool,
}

/// A connection that has ended.
pub struct Lost {
    /// The node with the reason, in one line.
    pub why: String,
    /// Whether a message that was in flight may be the reason.
    pub may_be_a_message: bool,
    /// Whether the broker took a message over the connection when it opened.
    pub was_proven: bool,
}

/// An answer of a broker.
pub enum Heard<L> {
    /// What has become of messages.
    Answers(Vec<Answer>),
    /// The broker takes no messages for a while, for this reason.
    Blocked(String),
    /// The broker takes messages again.
    Unblocked,
    /// The connection has ended.
    Lost(L),
}
