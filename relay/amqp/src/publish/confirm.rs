//! What the broker says about messages, and about itself.

use uuid::Uuid;

use crate::connect::error::AmqpError;

/// What the broker said about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// The message's [`Outgoing::id`](crate::Outgoing::id).
    pub id: Uuid,
    /// What became of the message.
    pub kind: ConfirmKind,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfirmKind {
    /// Every queue that the message was routed to has it, safely; there was at least one.
    Acked,
    /// A queue did not take the message, or failed.
    Nacked,
    /// No queue is bound for the message.
    Returned {
        /// AMQP reply code: 312, NO_ROUTE.
        code: u16,
        /// The broker's words.
        text: String,
    },
    /// The broker closed the channel over the message: it is too large, or its exchange is missing or forbidden. A
    /// message that AMQP cannot carry counts as closed too, and the broker never sees it.
    Closed {
        /// AMQP reply code.
        code: u16,
        /// The broker's words, or what does not fit.
        text: String,
    },
}

/// News from the broker.
#[derive(Debug)]
pub enum News {
    /// Confirms, in the order in which the broker gave them.
    Confirms(Vec<Confirm>),
    /// The broker takes no messages for now: it is out of memory or disk. What is handed over waits.
    Blocked {
        /// The broker's words.
        reason: String,
    },
    /// The broker takes messages again.
    Unblocked,
    /// The connection is gone. No more news follows, and the fate of every unconfirmed message is unknown.
    Lost(AmqpError),
}
