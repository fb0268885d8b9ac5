//! RabbitMQ from a client that costs next to nothing: what is measured through it is the broker.
//!
//! | you want | use |
//! |---|---|
//! | a queue, and to delete it | [`Queue`] |
//! | as many confirmed messages as the broker takes | [`publish`] |
//! | each message at once | [`publish_at_once`] |
//! | the moment at which each message arrives | [`Consumer`] |
//!
//! Frames are written and read by `amqp_publisher::raw`, over a blocking socket. Nothing here recovers: whatever is not
//! expected panics.

mod consumer;
mod link;
mod message;
mod publish;
mod queue;

pub(crate) use consumer::Consumer;
pub(crate) use link::{Link, publish_config};
pub(crate) use message::{Sample, id_of, number_of};
pub(crate) use publish::{publish, publish_at_once};
pub(crate) use queue::{Queue, QueueType};

/// Runs what blocks, on a thread that may block.
pub(crate) async fn on_own_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
