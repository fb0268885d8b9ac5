//! What the session may log or count.

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

use crate::interface::{Event, Lsn, PassReason, Status};

/// A transition worth a line in the log, or a number.
#[derive(Clone, Debug)]
pub enum Report {
    /// An event has its outcome, and this verdict follows. Without an error it was delivered, or its attempt does not
    /// count.
    Answered {
        /// The event.
        event: Arc<Event>,
        /// The status in the verdict.
        status: Status,
        /// The broker's reason, which is written into the row. It is the same text for all events that fail alike.
        error: Option<String>,
    },
    /// A connection to the broker takes messages again.
    BrokerBack {
        /// The host that it connects to.
        host: String,
        /// How long nothing could be published.
        away: Duration,
    },
    /// The broker has blocked publishing, for this reason.
    BrokerBlocked(String),
    /// The broker no longer blocks publishing.
    BrokerUnblocked,
    /// The connection to the broker is lost, or could not be made.
    BrokerAway {
        /// Which hosts were tried, and why that failed.
        error: String,
        /// How long nothing could be published.
        lasted: Duration,
        /// Events that were in flight.
        in_flight: usize,
    },
    /// Some destinations leave messages unanswered while others wait: the relay connects anew.
    Silent {
        /// The message that has waited the longest.
        event: Arc<Event>,
        /// Number of messages that have waited through all looks. If a later message was confirmed, only those before
        /// it count.
        events: usize,
        /// Number of destinations of these messages.
        destinations: usize,
    },
    /// The connection ended while this event alone was in flight. That proves nothing yet: the event leaves alone again
    /// later.
    EndedAlone {
        /// The event.
        event: Arc<Event>,
        /// How the connection ended.
        error: String,
        /// How often the connection has ended over this event alone.
        times: u32,
        /// Delay until the event is tried again.
        retry_in: Duration,
    },
    /// The session parks: events wait in the table from now on.
    Parked(Reason),
    /// The session goes live: events come from the stream from now on.
    Streaming {
        /// WAL position at which the last pass read the table.
        horizon: Lsn,
        /// Position up to which the WAL is acknowledged.
        acknowledged: Lsn,
        /// Events in memory.
        in_memory: usize,
    },
    /// The publication leaves columns out; the text names them.
    ColumnsMissing(String),
    /// The publication was missing or had lost the table, and was repaired; the text says how.
    PublicationRepaired(String),
    /// The publication is still useless: the server refused its repair with this error.
    RepairRefused(String),
    /// The sequence of `seq` was wrong and is repaired. The text says what was wrong.
    SequenceMended(String),
    /// The sequence of `seq` could not be read or repaired. The text is the server's error.
    SequenceRefused(String),
    /// The slot has been over its limit for too long, and is about to be dropped and created again.
    SlotOverLimit {
        /// WAL that the slot keeps, in bytes.
        kept: u64,
    },
    /// The slot has been over its limit for too long and is not dropped: another slot keeps more, so dropping this one
    /// would free no disk.
    OtherSlotKeepsMore {
        /// WAL that the slot keeps, in bytes.
        kept: u64,
    },
    /// A page of pending events was read.
    Scanned {
        /// The `seq` behind which the page began.
        after_seq: i64,
        /// Events in the page; those that were in memory are left out.
        found: usize,
        /// Whether the page reached the end of the table.
        complete: bool,
        /// Position up to which the WAL is acknowledged.
        acknowledged: Lsn,
    },
    /// A table operation failed, and will be tried again.
    TableTrouble {
        /// The server's error.
        error: String,
        /// Verdicts that were to be written; `None`: the table was to be read.
        verdicts: Option<usize>,
    },
    /// Events whose verdicts are late could not be kept in the table. Verdicts are written all the same, and the next
    /// look tries again. The text is the server's error.
    NotKept(String),
    /// The server refused a batch of verdicts because of one row, which is being searched for.
    Isolating {
        /// The server's error.
        error: String,
        /// Verdicts in the batch.
        verdicts: usize,
    },
    /// The server refuses to change this row. The verdict is kept and tried again.
    VerdictRefused {
        /// The event.
        id: Uuid,
        /// The server's error.
        error: String,
    },
    /// The row was deleted, or someone else finished the event, before its verdict could be written.
    RowGone(Uuid),
    /// A drain begins.
    Draining {
        /// Events in flight.
        in_flight: usize,
    },
}

/// Why the session parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The broker is away.
    BrokerAway,
    /// Memory is full of events that cannot leave.
    MemoryFull {
        /// Number of events in memory.
        events: usize,
    },
    /// More is emitted than `max_rate` lets leave.
    RateReached,
    /// More keys are known than memory has room for.
    TooManyKeys,
    /// A row of the stream is too large for memory.
    RowTooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The publication leaves columns out.
    ColumnsMissing,
    /// The publication has changed: events that were not streamed must be read from the table.
    PublicationChanged,
}

impl Reason {
    /// The reason of the pass that follows.
    pub(crate) fn of_pass(self) -> PassReason {
        match self {
            Self::BrokerAway => PassReason::BrokerAway,
            Self::MemoryFull { .. } | Self::RateReached => PassReason::MemoryFull,
            Self::TooManyKeys => PassReason::Keys,
            Self::RowTooLarge { .. } => PassReason::RowTooLarge,
            Self::ColumnsMissing | Self::PublicationChanged => PassReason::Publication,
        }
    }
}
