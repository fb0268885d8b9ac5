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
    /// The column `last_error`. A `PENDING` verdict without an error counts no attempt.
    pub error: Option<String>,
    /// Delay until the next attempt; `None`: the verdict is final.
    pub retry_in: Option<Duration>,
    /// Whether later events of the key wait for this event.
    pub holds_key: bool,
}

crate::marked!(Verdict { id, status, error, retry_in, holds_key });

/// Status of an event, named as in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The event is to be sent. As a verdict: an attempt has failed, and another will follow.
    Pending,
    /// The broker has confirmed the event, and routed it.
    Sent,
    /// The event is given up.
    Failed,
}

crate::marked_by_name!(Status);

impl Status {
    /// The label of PostgreSQL's enum.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Sent => "SENT",
            Self::Failed => "FAILED",
        }
    }
}
