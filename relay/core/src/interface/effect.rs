//! What the core asks for.

use std::{collections::HashSet, sync::Arc, time::Duration};

use uuid::Uuid;

use crate::interface::{Event, IdHash, KeyName, Lsn, Report, Verdict};

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Hand these to the broker.
    Publish {
        /// In this order, on the main channel.
        batch: Vec<Arc<Event>>,
        /// Each on a side channel of its own.
        beside: Vec<Arc<Event>>,
    },
    /// Replace the connection to the broker at once, by one to the same node if that can be reached.
    ConnectAnew,
    /// Start an operation on the table; none runs.
    Table(Request),
    /// Look at what the slot keeps; no operation runs on the table, and no other look.
    LookAtSlot {
        /// Look also who holds the slot back.
        asks_who: bool,
    },
    /// Tell the server that everything up to here is dealt with.
    Acknowledge(Lsn),
    /// Tell people.
    Report(Report),
    /// The session is over.
    End(End),
}

/// An operation on the table. One runs at a time: a row that a scan finds `PENDING` and that is in memory is in memory for that
/// very reason, since no verdict can be on its way past the scan.
#[derive(Clone, Debug)]
pub enum Request {
    /// Write verdicts.
    Settle(Batch),
    /// Read a page of what is owed.
    Scan(ScanFrom, Scan),
    /// Read what is due.
    Due(Scan),
    /// Look which transactions are visible.
    Snapshot,
    /// Look whether the publication is still the same.
    LookAtPublication,
    /// Create or repair the publication.
    EnsurePublication,
    /// Look at the sequence of `seq`, and mend it if needed.
    EnsureSequence,
}

#[cfg(feature = "faults")]
impl crate::Marked for Request {
    fn mark(&self, marks: &mut crate::Marks) {
        match self {
            Self::Settle(batch) => (1_u8, batch).mark(marks),
            Self::Scan(from, scan) => (2_u8, (from, scan)).mark(marks),
            Self::Due(scan) => (3_u8, scan).mark(marks),
            Self::Snapshot | Self::LookAtPublication | Self::EnsurePublication | Self::EnsureSequence => {
                marks.text(&format!("{self:?}"));
            }
        }
    }
}

/// Verdicts of one statement.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What to write; no event twice.
    pub verdicts: Vec<Verdict>,
    /// Pass over rows that someone else has locked, instead of waiting for them.
    pub skip_locked: bool,
    /// One row whose change the server has refused before.
    pub(crate) refused_before: bool,
    /// Those whose transactions were visible before this attempt: if their rows are not there now, they were deleted.
    pub(crate) last_chance: HashSet<Uuid, IdHash>,
}

crate::marked!(Batch { verdicts, skip_locked, refused_before, last_chance });

/// Where the next page of a scan begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanFrom {
    /// Rows with a greater `seq`.
    pub after_seq: i64,
    /// Up to the first row that a later transaction wrote: it may build on a row with a lower `seq` that could not be seen
    /// when the first page was read, so it waits for the next scan from the lowest row.
    pub older_than: Option<u32>,
}

crate::marked!(ScanFrom { after_seq, older_than as Xid });

impl ScanFrom {
    /// All rows.
    pub const LOWEST: Self = Self { after_seq: 0, older_than: None };

    /// Only a scan from the lowest row can be a whole pass: a transaction that committed late can hold a lower `seq`.
    pub fn is_whole_pass(self) -> bool {
        self == Self::LOWEST
    }
}

/// What is asked of a scan.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Rows with a greater `seq`.
    pub after_seq: i64,
    /// Up to the first row that this transaction or a later one wrote.
    pub older_than: Option<u32>,
    /// Stop after so many rows that are not in memory.
    pub max_rows: usize,
    /// Stop after so many bytes of them.
    pub max_bytes: usize,
    /// What is in memory of those rows, and is left out.
    pub known: HashSet<Uuid, IdHash>,
    /// Keys that are left out.
    pub left_out: Vec<KeyName>,
    /// Read so many of the events that hold their keys, at most.
    pub max_holders: usize,
    /// Whether events wait behind one that holds their key.
    pub respect_holds: bool,
    /// Try each row before it is read.
    pub row_by_row: bool,
}

crate::marked!(Scan {
    after_seq, older_than as Xid, max_rows, max_bytes, known, left_out, max_holders, respect_holds, row_by_row,
});

/// How a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything in flight has its verdict in the table, but for what silent destinations leave unanswered.
    Drained,
    /// The drain's time ran out. The rows of these events are still `PENDING`.
    DrainTimeout {
        /// Events in memory without a written verdict.
        unsettled: usize,
    },
    /// The process was stopped for a while, as a frozen machine is: another relay may have taken over.
    StoodStill(Duration),
    /// The table is not the extension's.
    Unreadable(String),
    /// The publication was to be repaired, and the server has refused it with these words: the stream may leave events out.
    RepairRefused(String),
    /// The publication, which was of no use, is repaired.
    PublishedAgain,
    /// The slot has kept more of the WAL than it may, for long: it is to be dropped, and created again.
    SlotOverLimit {
        /// Bytes.
        kept: u64,
    },
}
