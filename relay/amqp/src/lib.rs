//! An AMQP 0-9-1 publisher for RabbitMQ with a certain confirm for each message, and a small consumer beside it.
//!
//! RabbitMQ returns a message for which there is no queue, and then acks it like any other; only the order of the two
//! on the wire says which ack means "returned". This client reads them in that order, so every confirm is certain.
//!
//! ```text
//!  Publisher ──batches──▶ Connection (task) ─────▶ socket
//!     ▲                    │  Channel: Deliveries ─ Window
//!     └────────news────────┘  (pure: what to send, what a confirm means)
//! ```
//!
//! You publish a type of your own: it implements [`Outgoing`], which describes it as a [`Message`]. You keep at most
//! [`PublishConfig::window`] messages unconfirmed, and learn of each by [`Publisher::next`].
//!
//! | module | what it is |
//! |---|---|
//! | `publish` | [`Publisher`]: messages in, a certain confirm for each out |
//! | `publish::connection` | the task that owns the publisher's socket |
//! | `publish::{channel, deliveries, window}` | pure: what leaves next, which message closed the channel, tags, confirms |
//! | `publish::beside` | channels for one message each, behind which no other waits |
//! | `publish::{message, headers, encoder}` | a message as frames |
//! | `consume` | [`Consumer`]: messages as they pass an exchange, through a queue of its own |
//! | `connect` | from the addresses of a broker's nodes to an open virtual host; heartbeats; errors |
//! | `protocol` | AMQP 0-9-1: primitives, frames, methods |
//! | `raw` | with the feature `raw`: these frames, for those who measure a broker |
//!
//! # Example
//!
//! Publishes a line of text for each argument, and prints what became of it:
//!
//! ```no_run
#![doc = include_str!("../examples/publish.rs")]
//! ```

mod connect;
mod consume;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod protocol;
mod publish;
#[cfg(feature = "raw")]
pub mod raw;

pub use self::{
    connect::{
        connect_error::{ConnectError, Failure},
        dial::Peer,
        error::AmqpError,
        url::{AmqpUrl, InvalidAmqpUrl},
    },
    consume::{
        config::ConsumeConfig,
        consumer::Consumer,
        delivery::{DeliveredProperties, Delivery},
    },
    publish::{
        config::{ExchangeUse, PublishConfig},
        confirm::{Confirm, ConfirmKind, News},
        headers::{Headers, InvalidHeaders},
        message::{Message, Outgoing, Properties},
        publisher::Publisher,
    },
};
