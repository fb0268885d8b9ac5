//! An AMQP 0-9-1 publisher for RabbitMQ, with a certain answer for each message.
//!
//! A message for which there is no queue comes back, and is then confirmed like any other; only the order of the two on the
//! wire says which confirm means "returned". This client reads them in that order, and knows. It does nothing else: one
//! connection, one channel, publish and confirm.
//!
//! ```text
//!  Publisher ──batches──▶ Connection (task) ─────▶ socket
//!     ▲                    │  Channel: Deliveries ─ Window
//!     └──────notices───────┘  (pure: what to send, what an answer means)
//! ```
//!
//! You publish your own type: it implements [`Outgoing`], which says what it looks like as a [`Message`]. You keep no more than
//! [`PublishConfig::window`] messages unanswered, and learn of each by [`Publisher::next`].
//!
//! | module | what it is | I/O |
//! |---|---|---|
//! | `publisher` | the caller's side | yes |
//! | `url`, `dial`, `handshake` | from the addresses of a broker's nodes to an open channel | yes |
//! | `open` | a connected socket for another client of the same broker | yes |
//! | `connection` | the task that owns the socket | yes |
//! | `beside` | channels for one message each, behind which no other waits | no |
//! | `channel` | frames in, bytes and answers out | no |
//! | `deliveries` | what to publish next, and who closed the channel | no |
//! | `window` | delivery tags, returns, confirms | no |
//! | `message`, `headers`, `encoder` | a message as frames | no |
//! | `output` | bytes on their way to the socket, large bodies among them uncopied | no |
//! | `frame`, `method`, `wire` | AMQP 0-9-1 | no |
//! | `raw` | with the feature `raw`: these frames for who measures a broker | no |
//! | `liveness` | heartbeats and timeouts | no |
//! | `error`, `connect_error` | what can go wrong | no |
//!
//! # Example
//!
//! Publishes a line of text for each argument, and prints what became of it:
//!
//! ```no_run
#![doc = include_str!("../examples/publish.rs")]
//! ```

mod beside;
mod channel;
mod connect_error;
mod connection;
mod deliveries;
mod dial;
mod encoder;
mod error;
mod frame;
#[cfg(fuzzing)]
pub mod fuzz;
mod handshake;
mod headers;
mod liveness;
mod message;
mod method;
mod open;
mod output;
mod publisher;
#[cfg(feature = "raw")]
pub mod raw;
mod url;
mod window;
mod wire;

pub use self::{
    connect_error::{ConnectError, Failure},
    dial::Peer,
    error::PublishError,
    headers::{Headers, InvalidHeaders},
    message::{Message, Outgoing, Properties},
    open::Login,
    publisher::{Answer, ExchangeUse, Notice, PublishConfig, Publisher, Verdict},
    url::{AmqpUrl, InvalidAmqpUrl},
};
