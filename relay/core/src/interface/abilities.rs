//! What a sink can do beyond publishing.

/// The abilities of a sink, which differ between brokers. By default it has none, as RabbitMQ's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Whether the sink itself keeps the order of events with the same key and destination, so that several of them may
    /// be in flight: behind one that was not taken, those in flight come back ([`Behind`](crate::Outcome::Behind)).
    pub ordered: bool,
    /// Whether the sink can tell which events the broker already has
    /// ([`Effect::ReadBack`](crate::Effect::ReadBack)).
    pub reads_back: bool,
    /// Most bytes of a body that the broker takes; `None`: the sink knows no limit.
    pub largest_message: Option<usize>,
}
