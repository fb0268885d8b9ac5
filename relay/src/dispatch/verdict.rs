//! What goes in and out of the dispatch: offers, answers, verdicts.

use std::time::{Duration, Instant, SystemTime};

use uuid::Uuid;

use crate::progress::Ticket;

/// What became of an event that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is in memory now, and will be published.
    Admitted,
    /// It was in memory already: the scan and the stream both found it.
    Known,
    /// Its key has its full share of memory, or is held back: the row waits in the table until a pass finds it.
    Spilled,
}

/// The broker's answer about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Taken and routed.
    Delivered,
    /// Will not be taken, however often it is sent.
    Rejected(String),
    /// May be taken when sent again: it counts as an attempt.
    Retry(String),
    /// A queue did not take it. Whether that counts depends on what becomes of others.
    Nacked(String),
}

/// The time.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Of this process.
    pub instant: Instant,
    /// Of the world: microseconds since the Unix epoch.
    pub unix_us: i64,
}

impl Now {
    /// The time now.
    pub fn read() -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { instant: Instant::now(), unix_us: i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX) }
    }
}

/// What to write into the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
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

/// An event that left memory without a verdict: its row is found by a later pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// What [`Dispatch::attach`](super::Dispatch::attach) has tied it to.
    pub ticket: Option<Ticket>,
    /// The transaction that the stream brought it with.
    pub xid: Option<u32>,
}

/// Status of an event, with the words of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Owed to the broker; as a settlement: an attempt failed and another will follow.
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
