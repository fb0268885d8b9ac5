//! What becomes of an event: the broker's answer, and the verdict that it leads to.

use std::time::Duration;

use uuid::Uuid;

/// The broker's answer about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The event.
    pub id: Uuid,
    /// What the broker has done with it.
    pub outcome: Outcome,
}

/// What the broker has done with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Taken and routed.
    Delivered,
    /// It will not be taken, however often it is sent.
    Rejected(String),
    /// It may be taken when it is sent again. That counts as an attempt.
    Retry(String),
    /// Where it was to go takes nothing now. Whether that counts as an attempt depends on what becomes of other messages.
    Unavailable(String),
}

/// What is to be written into an event's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The event.
    pub id: Uuid,
    /// Its new status.
    pub status: Status,
    /// `last_error`. A `PENDING` without one counts no attempt.
    pub error: Option<String>,
    /// When it is to be tried again.
    pub retry_in: Option<Duration>,
    /// Whether later events of its key wait for it.
    pub holds_key: bool,
}

/// Status of an event, with the words of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Owed to the broker; as a verdict: an attempt failed and another will follow.
    Pending,
    /// Confirmed by the broker, routed.
    Sent,
    /// Given up.
    Failed,
}

impl Status {
    /// The label in PostgreSQL's enum.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Sent => "SENT",
            Self::Failed => "FAILED",
        }
    }
}
