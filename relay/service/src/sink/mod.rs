//! Brokers, to which events are published.

mod answers;
pub(crate) mod config;
mod connect;
pub mod kafka;
mod kind;
pub(crate) mod link;
pub mod rabbitmq;
#[cfg(feature = "otel")]
mod spans;
#[cfg(not(feature = "otel"))]
#[path = "no_spans.rs"]
mod spans;
mod unroutable;

use std::{future::Future, sync::Arc};

use outbox_core::{Abilities, Event, Notice, Older};

#[cfg(test)]
pub(crate) use self::kind::ANY;
pub use self::{
    answers::{Answer, Answers},
    config::SinkConfig,
    connect::Connect,
    kind::BrokerKind,
    spans::Spans,
    unroutable::Unroutable,
};
use crate::{error::RunError, peer::ServerPeer};

/// The name under which all relays of a slot publish, one after the other. `system`: the identifier of the cluster of
/// databases, in which each slot has a name of its own.
pub fn publisher_name(system: &str, slot: &str) -> String {
    format!("outbox-relay.{system}.{slot}")
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
    /// The broker's answers so far.
    pub answers: Answers,
}

impl SinkFigures {
    /// The figures of a sink that has not connected yet.
    pub(crate) fn new(kind: &BrokerKind) -> Self {
        Self { answers: Answers::new(kind), ..Self::default() }
    }

    /// Adds the counts of earlier sinks.
    pub(crate) fn after(mut self, past: &Self) -> Self {
        self.reconnects += past.reconnects;
        self.answers.add(&past.answers);
        self
    }
}

/// A broker and the connection to it, which is made again when it is lost.
///
/// The sink hides what differs between brokers: how one refuses a message, how it reports that it has no room, which
/// message has closed a channel.
pub trait Sink: Send {
    /// The broker's names and hints.
    fn kind(&self) -> &'static BrokerKind;

    /// What the sink can do.
    fn abilities(&self) -> Abilities;

    /// Learns what the broker has of events that were handed over since then (microseconds since the Unix epoch;
    /// `None`: as far back as the sink can), before it publishes anything else. What it finds, by id and number of
    /// replays, is answered as [`Found`](outbox_core::Outcome::Found) and not sent, for as long as the session lasts. A
    /// read that is interrupted begins again. By then no older connection can publish any more, of this relay or of
    /// another. What is `older` is read after that, from its own time on, before an event is sent that it may concern.
    fn read_back(&mut self, since_us: Option<i64>, older: Older);

    /// Publishes events in order. Never waits.
    ///
    /// An ordered sink ([`Abilities::ordered`]) answers about the events of a key and destination in that order. After
    /// an outcome other than `Delivered` or `Found`, it answers [`Behind`](outbox_core::Outcome::Behind) for each later
    /// one that was handed over before the core knew, and the broker takes none of them. It has no side channels,
    /// unless they keep that order. With `ordering = none` it answers `Behind` for no event. After a lost connection
    /// events are handed over again in their old order; those that the broker has taken are answered as `Delivered` and
    /// not taken twice.
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
