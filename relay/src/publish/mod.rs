//! Publishes events to RabbitMQ, with a certain verdict for each one.
//!
//! A client of its own, because a verdict must belong to its message. A message for which there is no queue comes back,
//! and is then confirmed like any other; only the order of the two on the wire says which confirm means "returned".
//! This client reads them in that order. It does nothing else: one connection, one channel, publish and confirm.
//!
//! ```text
//!  Publisher ──batches──▶ Connection (task) ─────▶ socket
//!     ▲                    │  Channel: Deliveries ─ Window
//!     └──────notices───────┘  (pure: what to send, what an answer means)
//! ```
//!
//! | module | what it is | I/O |
//! |---|---|---|
//! | `url`, `tls`, `socket`, `handshake` | from an address to an open channel | yes |
//! | `connection` | the task that owns the socket | yes |
//! | `channel` | frames in, bytes and answers out | no |
//! | `deliveries` | what to publish next, and who closed the channel | no |
//! | `doubts` | what has closed a channel and may do it again | no |
//! | `window` | delivery tags, returns, confirms | no |
//! | `message`, `headers` | an event as frames | no |
//! | `frame`, `method`, `wire` | AMQP 0-9-1 | no |
//! | `liveness` | heartbeats and timeouts | no |

mod channel;
mod connection;
mod deliveries;
mod doubts;
mod error;
#[cfg(test)]
mod example;
mod frame;
mod handshake;
mod headers;
mod liveness;
mod message;
mod method;
#[cfg(test)]
mod model;
mod publisher;
mod socket;
mod tls;
mod url;
mod window;
mod wire;

use std::time::Duration;

use uuid::Uuid;

pub use self::{
    error::PublishError,
    publisher::Publisher,
    url::{AmqpUrl, InvalidAmqpUrl},
};

/// What a [`Publisher`] needs to know.
#[derive(Clone, Debug)]
pub struct PublishConfig {
    /// The broker, and who logs in.
    pub url: AmqpUrl,
    /// Exchange of events that name none; at most 255 bytes.
    pub exchange: String,
    /// Whether to make it.
    pub exchange_use: ExchangeUse,
    /// AMQP `app_id` of every message; at most 255 bytes.
    pub app_id: String,
    /// Most events without an answer.
    pub window: usize,
    /// How long the broker may leave everything unanswered while it does not say that it is blocked.
    pub confirm_timeout: Duration,
    /// How long connecting may take, up to the open channel. `connection_timeout` in the URL overrides it.
    pub connect_timeout: Duration,
    /// The connection's name in the broker's management pages.
    pub connection_name: String,
}

/// What to do about the exchange when connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeUse {
    /// Take it as it is, of whatever type. It must be there.
    Take,
    /// Declare it: topic, durable.
    Declare,
    /// It was declared before. It must still be there, as it was declared.
    Expect,
}

/// News from the broker.
#[derive(Debug)]
pub enum Notice {
    /// Verdicts, in the order in which the broker gave them.
    Answers(Vec<Answer>),
    /// The broker takes no messages for now: out of memory or disk. What is handed over waits.
    Blocked {
        /// The broker's words.
        reason: String,
    },
    /// It takes messages again.
    Unblocked,
    /// The connection is gone. Nothing more will come, and whatever has no answer is unknown.
    Lost(PublishError),
}

/// The broker's word about one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The event.
    pub id: Uuid,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every queue it was routed to has it, safely; there was at least one.
    Confirmed,
    /// No queue is bound for it.
    Returned {
        /// AMQP reply code: 312, NO_ROUTE.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// A queue refused it or failed.
    Nacked,
    /// It is no message that this broker takes: too large, for an exchange that is missing or forbidden, or not AMQP.
    Refused {
        /// AMQP reply code.
        code: u16,
        /// The broker's words, or what would not fit.
        text: String,
    },
}
