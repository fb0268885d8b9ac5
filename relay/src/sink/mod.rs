//! Brokers: where events go.

pub mod rabbitmq;

use std::{future::Future, sync::Arc};

use outbox_core::{Event, Notice};

/// A broker, and the connection to it, which comes back by itself.
///
/// What only one broker knows ends here: how it refuses a message, what it says when it has no room, which message has closed a channel.
pub trait Sink: Send {
    /// Hands events over, to be published in order. Never waits.
    fn publish(&mut self, events: Vec<Arc<Event>>);

    /// Waits for news. Cancellation-safe: what is under way stays in `self`.
    fn next(&mut self) -> impl Future<Output = Notice> + Send;

    /// Says goodbye to the broker.
    fn close(self) -> impl Future<Output = ()> + Send;
}
