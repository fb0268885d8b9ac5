//! What people may want to know.

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

use crate::interface::{Event, Lsn, PassReason, Status};

/// What people may want to know.
#[derive(Clone, Debug)]
pub enum Report {
    /// The broker has answered about an event, and this follows. Without an error it was delivered, or its attempt does not count.
    Answered {
        /// The event.
        event: Arc<Event>,
        /// What is written into its row.
        status: Status,
        /// The broker's words, which are written as its error: the same for all events that are refused alike.
        error: Option<String>,
    },
    /// There is a connection to the broker again.
    BrokerBack {
        /// To which host.
        host: String,
        /// How long it was away.
        away: Duration,
    },
    /// The broker has blocked publishing.
    BrokerBlocked(String),
    /// The broker goes on.
    BrokerUnblocked,
    /// There is no connection to the broker.
    BrokerAway {
        /// Which hosts were tried, and why that failed.
        error: String,
        /// For so long.
        lasted: Duration,
        /// So many events were in flight.
        in_flight: usize,
    },
    /// Some destinations leave messages unanswered while others wait: the relay connects anew.
    Silent {
        /// The message that has waited the longest.
        event: Arc<Event>,
        /// How many messages have waited through all looks. If a later message was confirmed, only those before it
        /// count.
        events: usize,
        /// How many destinations these messages go to.
        destinations: usize,
    },
    /// The connection ended while this event alone was in flight, which is no proof yet: it leaves alone again later.
    EndedAlone {
        /// The event.
        event: Arc<Event>,
        /// How it ended.
        error: String,
        /// How often that was so.
        times: u32,
        /// Until it is tried again.
        retry_in: Duration,
    },
    /// Events wait in the table from now on.
    Parked(Reason),
    /// Events are streamed from now on.
    Streaming {
        /// Where the last pass ended in the WAL.
        horizon: Lsn,
        /// How far the WAL is acknowledged.
        acknowledged: Lsn,
        /// Events in memory.
        in_memory: usize,
    },
    /// The publication leaves something out.
    ColumnsMissing(String),
    /// The publication was missing, or had lost the table; this was done.
    PublicationRepaired(String),
    /// The publication is of no use still; the server's words.
    RepairRefused(String),
    /// The sequence of `seq` was wrong and is mended: what was wrong.
    SequenceMended(String),
    /// The sequence of `seq` could not be looked at, or not mended: the server's reason.
    SequenceRefused(String),
    /// The slot has been over its limit for long, and is about to be dropped and created again.
    SlotOverLimit {
        /// What it keeps of the WAL, in bytes.
        kept: u64,
    },
    /// The slot has been over its limit for long, and stays: another slot keeps more, so that dropping this one would free nothing.
    OtherSlotKeepsMore {
        /// What it keeps of the WAL, in bytes.
        kept: u64,
    },
    /// A page was read.
    Scanned {
        /// Where it began.
        after_seq: i64,
        /// Events that were not in memory.
        found: usize,
        /// Whether the table ended with it.
        complete: bool,
        /// How far the WAL is acknowledged.
        acknowledged: Lsn,
    },
    /// A table operation failed, and is tried again.
    TableTrouble {
        /// The server's words.
        error: String,
        /// Verdicts that were to be written; `None`: the table was to be read.
        verdicts: Option<usize>,
    },
    /// A batch of verdicts was refused for a row, which is looked for.
    Isolating {
        /// The server's words.
        error: String,
        /// Verdicts of the batch.
        verdicts: usize,
    },
    /// The server refuses the change of this row: its verdict is kept.
    VerdictRefused {
        /// The event.
        id: Uuid,
        /// The server's words.
        error: String,
    },
    /// A row was deleted, or its event finished by someone else, before its verdict could be written.
    RowGone(Uuid),
    /// A drain begins.
    Draining {
        /// Events in flight.
        in_flight: usize,
    },
}

/// Why events wait in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The broker is away.
    BrokerAway,
    /// Memory is full of events that cannot leave.
    MemoryFull {
        /// How many.
        events: usize,
    },
    /// More is emitted than may leave in that time.
    RateReached,
    /// More keys are known than memory has room for.
    TooManyKeys,
    /// A row of the stream is too large to be held in memory.
    RowTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The publication leaves columns out.
    ColumnsMissing,
    /// The publication has changed: what was missed must be read.
    PublicationChanged,
}

impl Reason {
    /// The same, as the reason of the pass that follows.
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
