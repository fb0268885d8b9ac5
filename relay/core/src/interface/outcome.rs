//! What a confirm of the broker means for the event.

/// What has become of one published event, in the core's words. The sink translates the broker's confirms into these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The broker has taken the message and routed it.
    Delivered,
    /// The sink has found the message at the broker, by reading back, and has not sent it. So it says nothing about
    /// what the broker takes now.
    Found,
    /// The broker will never take the message, however often it is sent. The text is the reason.
    Rejected(String),
    /// The broker may take the message when it is sent again; the attempt counts. The text is the reason.
    Retry(String),
    /// The destination takes nothing now. Outcomes of other messages decide whether the attempt counts. The text is the
    /// reason.
    Unavailable(String),
    /// The broker has not taken the message, because it has not taken an earlier one of the same key. Only an ordered
    /// sink ([`Abilities`](crate::Abilities)) says this. The event leaves again in its old order; no attempt counts.
    Behind,
    /// The sink cannot find out whether the broker has the message, so it has not sent it. For the event this is
    /// [`Behind`](Self::Behind) if an earlier event of its key waits for the same reason, and otherwise
    /// [`Unavailable`](Self::Unavailable).
    Unread {
        /// Whether an earlier event of its key waits for the same reason.
        is_behind: bool,
        /// Why the broker cannot be read.
        reason: String,
    },
}

crate::marked_by_name!(Outcome);
