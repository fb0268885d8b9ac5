//! What the session tells the core.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::interface::{Batch, Doubts, Event, KeyHolder, KeyName, Lsn, Outcome, ScanFrom, SlotSize, Snapshot};

/// Something that has happened to a session.
#[derive(Debug)]
pub enum Input<'a> {
    /// The replication stream has brought something.
    Stream(Streamed<'a>),
    /// The stream has started, in a session that began without one.
    StreamStarted,
    /// The sink has news of the broker.
    Sink(Notice),
    /// The table operation that the core asked for has ended.
    Table(Finished),
    /// The look at the slot that the core asked for has ended; `None`: there is no slot, or the look failed.
    Slot(Option<SlotSize>),
    /// The session is to finish what is in flight, and then end.
    Drain,
}

/// What the replication stream has brought.
#[derive(Debug)]
pub enum Streamed<'a> {
    /// A transaction begins.
    Begin {
        /// The transaction's id.
        xid: u32,
        /// Position of its commit record in the WAL.
        final_lsn: Lsn,
    },
    /// The transaction is complete.
    Commit {
        /// Position behind its commit record in the WAL.
        end_lsn: Lsn,
    },
    /// A row was inserted into the outbox.
    Insert(&'a dyn Row),
    /// A row was inserted of which the publication leaves columns out; the text names them.
    InsertWithoutColumns(String),
    /// A change arrived that is too large for memory. It counts as an insert into the outbox.
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The transaction wakes the relay: it has made rows `PENDING` again, or released a key.
    Replayed,
    /// The server has described the outbox's table. It does so before the first row, and again when table or
    /// publication may have changed.
    TableDescribed,
    /// The server has found no publication of the given name, and streams nothing of it.
    PublicationSkipped,
    /// The server has sent all WAL up to this position.
    Keepalive {
        /// The position: the end of the WAL that was sent.
        wal_end: Lsn,
        /// Whether the server wants a status update soon.
        reply_requested: bool,
    },
}

/// A row that was streamed. Its columns are decoded only when the core asks for them, since it asks nothing of most
/// rows that it leaves to the table.
pub trait Row: std::fmt::Debug {
    /// The primary key.
    ///
    /// # Errors
    ///
    /// The column has another form than the extension's.
    fn id(&self) -> Result<Uuid, String>;
    /// Whether the row is pending. A restored dump inserts finished rows, too.
    fn is_pending(&self) -> bool;
    /// Whether the event is to be sent at a later time (`available_at`).
    fn is_deferred(&self) -> bool;
    /// The row as an event, in memory of its own.
    ///
    /// # Errors
    ///
    /// As with [`id`](Self::id).
    fn event(&self) -> Result<Event, String>;
}

/// What the sink says about the broker.
#[derive(Debug)]
pub enum Notice {
    /// The outcomes of events, by their ids.
    Outcomes(Vec<(Uuid, Outcome)>),
    /// A connection is open and takes messages.
    Ready {
        /// The host that it connects to.
        host: String,
        /// Whether the broker has already taken the sink's own probe message over this connection and returned it. A
        /// sink sends one after a connection was lost in a way that a message may have caused.
        is_proven: bool,
        /// Whether the broker no longer knows the sink's earlier connections, so it would take an event again that it
        /// has already. Only a sink that reads back can tell.
        is_new_identity: bool,
        /// Side channels that the broker grants; at most [`SIDE_CHANNELS`](crate::SIDE_CHANNELS) are used.
        side_channels: usize,
    },
    /// The broker takes messages again, over the same connection.
    Unblocked,
    /// The broker blocks publishing, for this reason. It will still answer what is in flight.
    Blocked(String),
    /// The connection is lost, or an attempt to connect has failed. The outcome of what was in flight is unknown, and
    /// the sink tries again.
    Away {
        /// Which host was tried, and why that failed.
        error: String,
        /// Since when nothing could be published. A connection that ended before it had proven itself does not reset
        /// this.
        since: Instant,
        /// Whether a message in flight may be the reason: the broker or a proxy ended the connection, and not to stop.
        may_be_a_message: bool,
    },
}

/// How a table operation has ended.
#[derive(Clone, Debug)]
pub enum Finished {
    /// Verdicts were written, with exceptions.
    Settled(Batch, NotWritten),
    /// Verdicts could not be written, for a transient reason.
    NotSettled(Batch, Failure),
    /// The table keeps this.
    Kept(Doubts),
    /// The table could not keep it.
    NotKept {
        /// Whether it may do so another time.
        is_transient: bool,
        /// The server's error.
        error: String,
    },
    /// A page of pending events was read.
    Scanned(ScanFrom, Page),
    /// The events that are due were read.
    Due(Due),
    /// The table could not be read, for a transient reason.
    NotRead(Failure),
    /// The transactions that are visible.
    Snapshot(Snapshot),
    /// The publication as it is now.
    Published(Published),
    /// The publication is as it should be. The text says what was repaired; `None`: nothing.
    PublicationEnsured(Option<String>),
    /// The server refused to create or repair the publication, with this error.
    PublicationRefused(String),
    /// The sequence of `seq` was checked.
    Sequence(Sequence),
}

#[cfg(feature = "faults")]
impl crate::Marked for Finished {
    fn mark(&self, marks: &mut crate::Marks) {
        match self {
            Self::Settled(batch, not_written) => (1_u8, (batch, not_written)).mark(marks),
            Self::Scanned(from, page) => (2_u8, (from, page)).mark(marks),
            Self::Due(due) => (3_u8, due).mark(marks),
            Self::Snapshot(snapshot) => (4_u8, snapshot).mark(marks),
            Self::Published(published) => (5_u8, published).mark(marks),
            Self::NotSettled(batch, _) => (6_u8, batch).mark(marks),
            Self::Kept(doubts) => (7_u8, doubts).mark(marks),
            Self::NotKept { .. }
            | Self::NotRead(_)
            | Self::PublicationEnsured(_)
            | Self::PublicationRefused(_)
            | Self::Sequence(_) => marks.text(&format!("{self:?}")),
        }
    }
}

/// The result of checking the sequence of `seq`, which orders the events of a key in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// The sequence was in order.
    InOrder,
    /// The sequence was wrong and is repaired. The text says what was wrong, as a sentence for the log.
    Mended(String),
    /// The sequence could not be read or repaired. The text is the server's error.
    Refused(String),
}

/// A statement failed, and may succeed another time.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What helps against it.
    pub remedy: Remedy,
    /// The server's error.
    pub error: String,
}

/// What helps against a failed statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Run it again: it met a deadlock, a cancelled statement or a full disk.
    Repeat,
    /// Skip locked rows: another transaction has locked rows, or the table.
    PassLocks,
    /// Find the row at fault: a trigger of the user's may refuse one row of the batch.
    Isolate,
}

/// Events whose verdicts were not written, by reason.
#[derive(Clone, Debug, Default)]
pub struct NotWritten {
    /// The row is not visible.
    pub missing: Vec<Uuid>,
    /// The row is locked.
    pub locked: Vec<Uuid>,
    /// The event was to be tried again or to hold its key, but someone has finished it.
    pub finished: Vec<Uuid>,
}

crate::marked!(NotWritten { missing, locked, finished });

/// The result of scanning for pending events.
#[derive(Clone, Debug)]
pub struct Page {
    /// The transactions that the scan saw.
    pub snapshot: Snapshot,
    /// A WAL position that was read with the snapshot: every commit that the snapshot sees lies before it.
    pub horizon: Lsn,
    /// Pending events that are not in memory, in order of `seq`.
    pub events: Vec<Arc<Event>>,
    /// The last `seq` that the page covers; `None`: it reached the end of the table.
    pub stopped_at: Option<i64>,
    /// Keys whose events were left out.
    pub left_out: Vec<KeyName>,
    /// Events that hold their keys; only a page from the beginning reads them. Events behind them are left out as well.
    pub holders: Vec<KeyHolder>,
    /// Whether the table has more holders than `holders`.
    pub holders_cut: bool,
}

crate::marked!(Page { snapshot, horizon, events, stopped_at, left_out, holders, holders_cut });

/// The result of scanning for events that are due.
#[derive(Clone, Debug)]
pub struct Due {
    /// The transactions that the scan saw.
    pub snapshot: Snapshot,
    /// Events whose time has come and that are not in memory.
    pub events: Vec<Arc<Event>>,
    /// Whether more events are due than the scan was allowed to read.
    pub cut: bool,
    /// Time until the next event is due; `None`: no event has a time to come.
    pub next_in: Option<Duration>,
}

crate::marked!(Due { snapshot, events, cut, next_in });

/// The publication as it is now.
#[derive(Clone, Debug)]
pub struct Published {
    /// A text that differs after any change; `None`: the publication or its table is missing.
    pub identity: Option<String>,
    /// The transactions that last changed the publication, as 32-bit ids.
    pub changed_by: Vec<u32>,
    /// The transactions that were visible to this look.
    pub snapshot: Snapshot,
    /// The transactions that had written to the table and were still running at this look or a moment later; `None`:
    /// any running transaction may have.
    pub writers: Option<Vec<u32>>,
}

crate::marked!(Published { identity, changed_by as Xid, snapshot, writers as Xid });
