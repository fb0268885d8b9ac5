//! What the core is told.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::interface::{Batch, Event, KeyHolder, KeyName, Lsn, Outcome, ScanFrom, SlotSize, Snapshot};

/// Whatever happens to a session.
#[derive(Debug)]
pub enum Input<'a> {
    /// The replication stream goes on.
    Stream(Streamed<'a>),
    /// The stream has started, of a session that began without one.
    StreamStarted,
    /// News of the broker.
    Sink(Notice),
    /// The table operation that was asked for has ended.
    Table(Finished),
    /// The look at the slot that was asked for has ended; `None`: there is no slot, or it could not be looked at.
    Slot(Option<SlotSize>),
    /// Finish what is in flight, and then end.
    Drain,
}

/// What the replication stream brings.
#[derive(Debug)]
pub enum Streamed<'a> {
    /// A transaction begins.
    Begin {
        /// Its id.
        xid: u32,
        /// Where its commit stands in the WAL.
        final_lsn: Lsn,
    },
    /// The transaction has ended.
    Commit {
        /// Where its commit ends in the WAL.
        end_lsn: Lsn,
    },
    /// A row was inserted into the outbox.
    Insert(&'a dyn Row),
    /// A row was inserted of which the publication leaves columns out; the text says which.
    InsertWithoutColumns(String),
    /// Something came that is too large to be held in memory. It must be taken for an insert into the outbox.
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The transaction has made rows `PENDING` again.
    Replayed,
    /// The server describes the outbox's table: before its first row, and again when table or publication may have changed.
    TableDescribed,
    /// The server has found no publication of that name, and streams nothing of it.
    PublicationSkipped,
    /// The server has sent all up to here.
    Keepalive {
        /// The end of its WAL.
        wal_end: Lsn,
        /// Whether it wants to be told a position soon.
        reply_requested: bool,
    },
}

/// A row that was streamed. A column is read only when the core asks for it: of most rows that it leaves to the table it asks nothing.
pub trait Row: std::fmt::Debug {
    /// Primary key.
    ///
    /// # Errors
    ///
    /// The column is not what it should be: the table is not the extension's.
    fn id(&self) -> Result<Uuid, String>;
    /// Whether the row is owed to the broker. A restored dump inserts finished rows, too.
    fn is_pending(&self) -> bool;
    /// Whether the event asks to be sent at a later time.
    fn is_deferred(&self) -> bool;
    /// The row as an event, in memory of its own.
    ///
    /// # Errors
    ///
    /// As with [`id`](Self::id).
    fn event(&self) -> Result<Event, String>;
}

/// News of the broker.
#[derive(Debug)]
pub enum Notice {
    /// It has answered.
    Outcomes(Vec<(Uuid, Outcome)>),
    /// There is a connection, and it takes messages.
    Ready {
        /// To which host.
        host: String,
        /// The broker has taken a message over it already, which was made to be sent back. A sink asks for that after
        /// a loss that may have been a message's.
        is_proven: bool,
        /// Side channels that the broker grants; at most [`SIDE_CHANNELS`](crate::SIDE_CHANNELS) are used.
        side_channels: usize,
    },
    /// It takes messages again, over the same connection.
    Unblocked,
    /// It takes no messages for a while; what is in flight will be answered.
    Blocked(String),
    /// There is no connection, or it could not be made. What was in flight is unknown. Another attempt follows.
    Away {
        /// Which host, and why.
        error: String,
        /// Since when nothing could be published: a connection that ended before it had shown that the broker takes messages
        /// makes no difference.
        since: Instant,
        /// One of the messages that were in flight may be the reason: the other side ended the connection, and not because it
        /// stops.
        may_be_a_message: bool,
    },
}

/// The end of a table operation.
#[derive(Clone, Debug)]
pub enum Finished {
    /// Verdicts were written, but for some.
    Settled(Batch, NotWritten),
    /// Verdicts could not be written now, but may be in a moment.
    NotSettled(Batch, Failure),
    /// A page of what is owed was read.
    Scanned(ScanFrom, Page),
    /// What is due was read.
    Due(Due),
    /// The table could not be read now, but may be in a moment.
    NotRead(Failure),
    /// Which transactions are visible.
    Snapshot(Snapshot),
    /// The publication as it is now.
    Published(Published),
    /// The publication was looked after: what had to be done to it, if anything.
    PublicationEnsured(Option<String>),
    /// The server has refused to have the publication looked after, with these words.
    PublicationRefused(String),
    /// The sequence of `seq` was looked after.
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
            Self::NotRead(_) | Self::PublicationEnsured(_) | Self::PublicationRefused(_) | Self::Sequence(_) => {
                marks.text(&format!("{self:?}"))
            }
        }
    }
}

/// What became of the look at the sequence of `seq`, which gives a key its order in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// Nothing was to be done.
    InOrder,
    /// It was wrong and is mended: what was wrong, as a sentence for the log.
    Mended(String),
    /// It could not be looked at, or not mended: the server's reason.
    Refused(String),
}

/// A statement that failed, and may succeed another time.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What can be done about it.
    pub remedy: Remedy,
    /// The server's words.
    pub error: String,
}

/// What to do about a statement that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Run it again: a deadlock, a statement cancelled, a full disk.
    Repeat,
    /// Someone has locked rows, or the table: pass over the rows.
    PassLocks,
    /// Some row of the batch may be at fault, as when a trigger of the user's refuses it.
    Isolate,
}

/// Events whose verdicts were not written.
#[derive(Clone, Debug, Default)]
pub struct NotWritten {
    /// Their rows are not to be seen.
    pub missing: Vec<Uuid>,
    /// Their rows are locked.
    pub locked: Vec<Uuid>,
    /// They were to be tried again, but someone has finished them.
    pub finished: Vec<Uuid>,
}

crate::marked!(NotWritten { missing, locked, finished });

/// What a scan of the backlog found.
#[derive(Clone, Debug)]
pub struct Page {
    /// What the scan could see.
    pub snapshot: Snapshot,
    /// A WAL position from when the snapshot was taken: every commit that it sees lies before.
    pub horizon: Lsn,
    /// Owed to the broker and not in memory, in order.
    pub events: Vec<Arc<Event>>,
    /// `None`: that is all there is. Otherwise the last `seq` that was dealt with.
    pub stopped_at: Option<i64>,
    /// Keys that were left out.
    pub left_out: Vec<KeyName>,
    /// Events that hold their keys; only a whole pass reads them. The events behind them were left out, too.
    pub holders: Vec<KeyHolder>,
    /// Whether there are more of them.
    pub holders_cut: bool,
}

crate::marked!(Page { snapshot, horizon, events, stopped_at, left_out, holders, holders_cut });

/// What a scan of the events that are due found.
#[derive(Clone, Debug)]
pub struct Due {
    /// What the scan could see.
    pub snapshot: Snapshot,
    /// Events whose time has come, not in memory.
    pub events: Vec<Arc<Event>>,
    /// Whether memory ended before they did.
    pub cut: bool,
    /// Time until the next one.
    pub next_in: Option<Duration>,
}

crate::marked!(Due { snapshot, events, cut, next_in });

/// The publication as it is now.
#[derive(Clone, Debug)]
pub struct Published {
    /// Another text after any change; `None`: it cannot be told.
    pub identity: Option<String>,
    /// The transactions that have made it what it is, as 32-bit ids.
    pub changed_by: Vec<u32>,
    /// What was visible then.
    pub snapshot: Snapshot,
    /// The transactions that had written to the table and had not ended then, or a moment later; `None`: any that had not ended may have.
    pub writers: Option<Vec<u32>>,
}

crate::marked!(Published { identity, changed_by as Xid, snapshot, writers as Xid });
