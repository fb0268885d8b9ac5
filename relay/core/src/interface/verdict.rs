//! What is written into an event's row.

use std::time::Duration;

use uuid::Uuid;

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

crate::marked!(Verdict { id, status, error, retry_in, holds_key });

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

crate::marked_by_name!(Status);

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
