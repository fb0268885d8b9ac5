//! What the core asks the session to do.

use std::{collections::HashSet, sync::Arc, time::Duration};

use uuid::Uuid;

use crate::interface::{Doubts, Event, IdHash, KeyName, Lsn, Report, Verdict};

/// What the session is to do.
#[derive(Debug)]
pub enum Effect {
    /// Hand events to the broker.
    Publish {
        /// For the main channel, in this order.
        batch: Vec<Arc<Event>>,
        /// For side channels, one each.
        beside: Vec<Arc<Event>>,
    },
    /// Find out what the broker has of events that were published since then, before anything else is published. The
    /// sink then answers [`Found`](crate::Outcome::Found) for an event that it has found with the same id and number of
    /// replays, without sending it. It keeps what it has found for the whole session.
    ReadBack {
        /// By the clock on the wall, in microseconds since the Unix epoch; `None`: nothing tells how far back unsettled
        /// events were published.
        since_us: Option<i64>,
        /// What is older is read as well, after that.
        older: Older,
    },
    /// Replace the connection to the broker at once, preferably by one to the same node.
    ConnectAnew,
    /// Start an operation on the table. No other is running.
    Table(Request),
    /// Look at what the slot keeps. No operation is running on the table, and no other look.
    LookAtSlot {
        /// Whether to find out as well what holds the slot back.
        asks_who: bool,
    },
    /// Acknowledge the WAL up to this position, in a status update to the server.
    Acknowledge(Lsn),
    /// Log this, or count it.
    Report(Report),
    /// End the session.
    End(End),
}

/// Earlier times from which the broker is read. What is newer is read first, because the sink's reads have a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Older {
    /// For all events; `None`: no earlier time.
    pub since_us: Option<i64>,
    /// For single events, each with its own time.
    pub in_doubt: Vec<(Uuid, i64)>,
}

/// An operation on the table. Only one runs at a time, so no verdict can overtake a scan: if a scan finds a row
/// `PENDING` whose event is in memory, the event has yet to get its verdict.
#[derive(Clone, Debug)]
pub enum Request {
    /// Write verdicts.
    Settle(Batch),
    /// Keep what the next session needs to know of events that the broker may have.
    Keep(Doubts),
    /// Read a page of pending events.
    Scan(ScanFrom, Scan),
    /// Read the events whose time (`available_at`) has come.
    Due(Scan),
    /// Read which transactions are visible.
    Snapshot,
    /// Read whether the publication has changed.
    LookAtPublication,
    /// Create or repair the publication.
    EnsurePublication,
    /// Check the sequence of `seq`, and repair it if needed.
    EnsureSequence,
}

#[cfg(feature = "faults")]
impl crate::Marked for Request {
    fn mark(&self, marks: &mut crate::Marks) {
        match self {
            Self::Settle(batch) => (1_u8, batch).mark(marks),
            Self::Scan(from, scan) => (2_u8, (from, scan)).mark(marks),
            Self::Due(scan) => (3_u8, scan).mark(marks),
            Self::Keep(doubts) => (4_u8, doubts).mark(marks),
            Self::Snapshot | Self::LookAtPublication | Self::EnsurePublication | Self::EnsureSequence => {
                marks.text(&format!("{self:?}"));
            }
        }
    }
}

/// The verdicts of one statement.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The verdicts; none is about the same event as another.
    pub verdicts: Vec<Verdict>,
    /// Whether to skip rows that another transaction has locked, instead of waiting for them.
    pub skip_locked: bool,
    /// The batch is one verdict that the server has refused before.
    pub(crate) refused_before: bool,
    /// Events whose transactions were visible before this attempt: a row that is missing now was deleted.
    pub(crate) last_chance: HashSet<Uuid, IdHash>,
}

crate::marked!(Batch { verdicts, skip_locked, refused_before, last_chance });

/// Where a page of a pass begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanFrom {
    /// The page begins behind this `seq`.
    pub after_seq: i64,
    /// The page ends before the first row that this transaction or a later one wrote. Such a row may build on a row
    /// with a lower `seq` that was not visible when the first page was read, so it waits for the next pass. `None`: no
    /// such bound.
    pub older_than: Option<u32>,
}

crate::marked!(ScanFrom { after_seq, older_than as Xid });

impl ScanFrom {
    /// The beginning of the table.
    pub const LOWEST: Self = Self { after_seq: 0, older_than: None };

    /// Whether the page may be a whole pass. Only one from the beginning can be: a transaction that committed late can
    /// have a lower `seq`.
    pub fn is_whole_pass(self) -> bool {
        self == Self::LOWEST
    }
}

/// The arguments of a scan of the table.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Only rows behind this `seq`.
    pub after_seq: i64,
    /// Only rows before the first one that this transaction or a later one wrote. `None`: no such limit; 0: no row is
    /// old enough, except holders of keys and events without a key.
    pub older_than: Option<u32>,
    /// Stop after this many rows that are not in memory.
    pub max_rows: usize,
    /// Stop after this many bytes of rows that are not in memory.
    pub max_bytes: usize,
    /// Events that are in memory. The scan leaves them out.
    pub known: HashSet<Uuid, IdHash>,
    /// Keys whose events the scan leaves out.
    pub left_out: Vec<KeyName>,
    /// Read at most this many holders of keys.
    pub max_holders: usize,
    /// Whether events are left out that wait behind the holder of their key.
    pub respect_holds: bool,
    /// Whether to test each row's size before reading it.
    pub row_by_row: bool,
}

crate::marked!(Scan {
    after_seq, older_than as Xid, max_rows, max_bytes, known, left_out, max_holders, respect_holds, row_by_row,
});

/// How a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The drain is complete: every event in flight has its verdict in the table, except those of silent destinations.
    Drained,
    /// The drain ran out of time. These events are still `PENDING`.
    DrainTimeout {
        /// Events in memory whose verdicts are not written.
        unsettled: usize,
    },
    /// The process stood still for this long, as a frozen machine does: another relay may have taken over.
    StoodStill(Duration),
    /// The table is not the extension's; the text says in what way.
    Unreadable(String),
    /// The server refused to repair the publication, with this error: the stream may leave events out.
    RepairRefused(String),
    /// The publication was useless, and is repaired.
    PublishedAgain,
    /// The slot has been over its limit for too long. It is to be dropped and created again.
    SlotOverLimit {
        /// Bytes of WAL that the slot keeps.
        kept: u64,
    },
}
