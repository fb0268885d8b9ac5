//! AMQP 0-9-1 with frames written by hand to a blocking socket, so that the client costs next to nothing: what is measured
//! through it is the broker.
//!
//! | you want | use |
//! |---|---|
//! | an open channel, to declare and delete queues | [`Link`] |
//! | as many confirmed messages as the broker takes | [`publish`] |
//! | each message at once | [`publish_at_once`] |
//! | the moment at which each message arrives | [`Consumer`] |
//!
//! Method numbers: <https://www.rabbitmq.com/amqp-0-9-1-reference.html>. Nothing here recovers: what is not expected panics.

mod confirms;
mod consumer;
mod link;
mod publisher;
mod received;
mod wire;

pub(crate) use consumer::{Acks, Consumer};
pub(crate) use link::{Link, Queue, QueueType};
pub(crate) use publisher::{Says, id_of, publish, publish_at_once};
