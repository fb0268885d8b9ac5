//! When to read the table, and which part of the stream its rows cover.
//!
//! The table is the truth, and the WAL only says that there is something new. A *pass* over the `PENDING` rows is the
//! one way to recover from anything. A session is in one of two modes:
//!
//! ```text
//!            ┌────────── a pass that fits in memory ──────────┐
//!            │                                                ▼
//!         Parked: the stream is acknowledged unread        Live: events come from the stream;
//!         and the backlog is read page by page             a replay calls for a pass
//!            ▲                                                │
//!            └── broker away, memory stuck, pass too large ───┘
//! ```
//!
//! A session whose slot is still being created has no stream and stays parked: one pass follows the other.
//!
//! A pass reads the rows and its own snapshot in one transaction. A streamed transaction that the snapshot sees was
//! covered by the pass; a transaction that it does not see cannot have been.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::{
    faults::{self, Fault},
    interface::{Lsn, Page, ScanFrom, Snapshot},
    parts::{NotYetVisible, Origin},
};

/// Pause before the next pass when a transaction was not yet visible; it doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(1);
/// Longest such pause: under synchronous replication a commit can stay invisible for as long as a standby is away.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// While the pause between passes is at most this long, the stream is paused as well: some 100 ms in all.
const LONGEST_STREAM_PAUSE: Duration = Duration::from_millis(64);
/// From this many transactions that are not yet visible on (4 kB), their visibility is looked up outside a pass.
const MOST_BEFORE_LOOK_UP: usize = 1024;

/// Whether the passes cover an insert that the stream brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// No pass has read it: it is published.
    Publish,
    /// The last pass has read it.
    AlreadyRead,
    /// The session is parked: a later pass will read it.
    LeaveInTable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Parked { next: ScanFrom },
    Live,
}

/// Whether there is a stream to go live with after a pass. Without one, only the next pass follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The slot is still being created.
    Missing,
    /// The stream started while the present pass was running. That pass may have missed commits from before the start.
    StartedInPass,
    Started,
}

crate::marked_by_name!(Stream);

#[derive(Clone, Debug)]
struct Covered {
    snapshot: Snapshot,
    horizon: Lsn,
}

#[cfg(feature = "faults")]
impl crate::Marked for Mode {
    fn mark(&self, marks: &mut crate::Marks) {
        let next = match self {
            Self::Parked { next } => Some(*next),
            Self::Live => None,
        };
        next.mark(marks);
    }
}

crate::marked!(Covered { snapshot, horizon });

/// The state of recovery: mode, coverage of the last pass, and when the next one is due.
#[derive(Clone, Debug)]
pub(crate) struct Resync {
    mode: Mode,
    stream: Stream,
    covered: Option<Covered>,
    /// The transaction that the stream is in the middle of.
    current: Option<Origin>,
    /// Transactions that left events to the table and were not yet visible at the last look.
    not_yet_visible: NotYetVisible,
    look_up_at: usize,
    pass_at: Option<Instant>,
    wait: Duration,
    /// The oldest of `not_yet_visible` at the end of the last whole pass.
    oldest_before: Option<u32>,
    /// The last pass has read everything that transactions older than this one had written; 0, which is no transaction:
    /// the pass did not reach the end of the table.
    read_before: u32,
    /// The session is parked and has read all visible events: the stream waits for the others to become visible.
    closing: bool,
}

crate::marked!(Resync {
    mode, stream, covered, current, not_yet_visible, look_up_at, pass_at, wait, oldest_before as Xid,
    read_before as Xid, closing,
});

impl Resync {
    /// A session begins parked, with a pass.
    pub(crate) fn new(stream: Stream, now: Instant) -> Self {
        Self {
            mode: Mode::Parked { next: ScanFrom::LOWEST },
            stream,
            covered: None,
            current: None,
            not_yet_visible: NotYetVisible::default(),
            look_up_at: MOST_BEFORE_LOOK_UP,
            pass_at: Some(now),
            wait: FIRST_WAIT,
            oldest_before: None,
            read_before: 0,
            closing: false,
        }
    }

    /// Whether events come from the stream.
    pub(crate) fn is_live(&self) -> bool {
        self.mode == Mode::Live
    }

    /// The stream has started. It lacks earlier commits, so a whole pass must begin after its start. `runs_pass`: a
    /// pass is running now.
    pub(crate) fn stream_started(&mut self, runs_pass: bool, now: Instant) {
        self.stream = if runs_pass { Stream::StartedInPass } else { Stream::Started };
        self.want_pass(now);
    }

    /// Whether there is no stream yet.
    pub(crate) fn is_without_stream(&self) -> bool {
        self.stream == Stream::Missing
    }

    /// Whether the last pass has reached the end of the table.
    pub(crate) fn has_read_all(&self) -> bool {
        self.read_before > 0
    }

    /// The stream begins a transaction.
    pub(crate) fn begin(&mut self, origin: Origin) {
        self.current = Some(origin);
        // Transaction ids wrap around, so a snapshot must not be asked about transactions long after it.
        if self.covered.as_ref().is_some_and(|covered| origin.commit >= covered.horizon) {
            self.covered = None;
        }
    }

    /// The stream has ended the transaction.
    pub(crate) fn commit(&mut self) {
        self.current = None;
    }

    /// Whether the passes cover an insert of the current transaction.
    pub(crate) fn coverage(&self) -> Coverage {
        match (&self.mode, &self.covered) {
            (Mode::Parked { .. }, _) => Coverage::LeaveInTable,
            (Mode::Live, Some(_)) if faults::is_on(Fault::CoveredTaken) => Coverage::Publish,
            (Mode::Live, Some(_)) if faults::is_on(Fault::UncoveredSkipped) => Coverage::AlreadyRead,
            (Mode::Live, Some(covered)) if self.current.is_some_and(|current| covered.snapshot.sees(current.xid)) => {
                Coverage::AlreadyRead
            }
            (Mode::Live, _) => Coverage::Publish,
        }
    }

    /// The transaction that the stream is in the middle of.
    pub(crate) fn current(&self) -> Option<Origin> {
        self.current
    }

    /// The position up to which the WAL may be acknowledged at most; `None`: no limit.
    pub(crate) fn ack_limit(&self) -> Option<Lsn> {
        self.not_yet_visible.ack_limit()
    }

    /// An event of the current transaction is left to the table.
    pub(crate) fn left_to_table(&mut self) {
        self.left_behind(self.current);
    }

    /// An event has gone back from memory to the table. `origin`: the transaction that brought it; `None`: a scan found
    /// it.
    pub(crate) fn left_behind(&mut self, origin: Option<Origin>) {
        if let Some(origin) = origin {
            self.not_yet_visible.insert(origin);
        }
    }

    /// The current transaction wakes the relay: it made rows `PENDING` again or released a key. Asks for a pass at
    /// `then` at the latest.
    pub(crate) fn replayed(&mut self, then: Instant) {
        if !faults::is_on(Fault::ReplayUnheard) {
            self.left_to_table();
            self.want_pass(then);
        }
    }

    /// Asks for a pass at `then` at the latest.
    pub(crate) fn want_pass(&mut self, then: Instant) {
        self.pass_at = Some(self.pass_at.map_or(then, |at| at.min(then)));
    }

    /// The stream has passed over a part of the WAL behind `position` that the server could not send; `snapshot` was
    /// taken afterwards. Transactions that it does not see must be read before events are streamed again.
    pub(crate) fn passed_over(&mut self, snapshot: &Snapshot, position: Lsn) {
        for xid in snapshot.running() {
            self.not_yet_visible.insert(Origin { xid, commit: position });
        }
    }

    /// These transactions may have written while the table was not published. Their events are not in the stream, so
    /// they must be read before events are streamed again; the WAL is not kept for them.
    pub(crate) fn left_unstreamed(&mut self, transactions: Vec<u32>) {
        for xid in transactions {
            self.not_yet_visible.insert(Origin { xid, commit: Lsn(u64::MAX) });
        }
    }

    /// From now on the stream is acknowledged unread, and a pass is due.
    pub(crate) fn park(&mut self, now: Instant) {
        self.left_to_table(); // the stream may be in the middle of a transaction
        self.covered = None;
        self.closing = false;
        self.mode = Mode::Parked { next: ScanFrom::LOWEST };
        self.pass_at = Some(now);
    }

    /// Whether the stream is paused for the passes that are about to end recovery.
    pub(crate) fn pauses_stream(&self) -> bool {
        self.closing && self.wait <= LONGEST_STREAM_PAUSE
    }

    /// Events of this transaction and later ones may stand in the table behind unread events of their key; 0: any event
    /// may. `None`: events come from the stream.
    pub(crate) fn has_read_before(&self) -> Option<u32> {
        (!self.is_live()).then_some(self.read_before)
    }

    /// Which page to read now; `None`: none is due.
    pub(crate) fn wants_scan(&self, now: Instant) -> Option<ScanFrom> {
        let pass_is_due = self.pass_at.is_some_and(|at| at <= now);
        match self.mode {
            Mode::Parked { next } if !next.is_whole_pass() => Some(next),
            _ => pass_is_due.then_some(ScanFrom::LOWEST),
        }
    }

    /// When [`wants_scan`](Self::wants_scan) may change without an input.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.pass_at
    }

    /// Whether to look up which transactions have become visible, which bounds the size of `not_yet_visible`.
    pub(crate) fn wants_snapshot(&self) -> bool {
        self.not_yet_visible.len() >= self.look_up_at
    }

    /// Forgets the transactions that the snapshot sees. Returns whether none is left: then a whole pass under this
    /// snapshot finds everything that was ever left to the table.
    pub(crate) fn seen(&mut self, snapshot: &Snapshot) -> bool {
        self.not_yet_visible.seen(snapshot);
        self.look_up_at = MOST_BEFORE_LOOK_UP.max(2 * self.not_yet_visible.len());
        self.not_yet_visible.is_empty()
    }

    /// A page was read, and its events were taken into memory.
    pub(crate) fn scanned(&mut self, from: ScanFrom, page: &Page, now: Instant) {
        let was_live = self.is_live();
        let all_visible = self.seen(&page.snapshot);
        let is_whole = page.stopped_at.is_none() && from.is_whole_pass();
        // Streamed events can be ordered against the table only if memory knows every held key.
        let is_last = is_whole && !page.holders_cut;
        self.read_before =
            if is_last || faults::is_on(Fault::DueOvertakes) { page.snapshot.oldest_running() } else { 0 };
        // Events that were left to the table come before those that are streamed from now on, so all must have been
        // read.
        let has_stream = match self.stream {
            Stream::Missing => false,
            Stream::StartedInPass => {
                self.stream = Stream::Started;
                faults::is_on(Fault::PassBeforeStream)
            }
            Stream::Started => true,
        };
        let may_stream = has_stream && is_last && (all_visible || was_live);
        self.closing = has_stream && is_last && !may_stream;
        self.mode = match page.stopped_at {
            _ if may_stream => Mode::Live,
            // Between two pages, a key may be released that memory does not know. The next page would bring its later
            // events, although earlier pages left out the first ones, so it begins from the lowest row.
            Some(_) if page.holders_cut => Mode::Parked { next: ScanFrom::LOWEST },
            Some(after_seq) => {
                let older_than = from.older_than.unwrap_or_else(|| page.snapshot.oldest_running());
                let older_than = (!faults::is_on(Fault::PageOvertakes)).then_some(older_than);
                Mode::Parked { next: ScanFrom { after_seq, older_than } }
            }
            None => Mode::Parked { next: ScanFrom::LOWEST },
        };
        self.covered = may_stream.then(|| Covered { snapshot: page.snapshot.clone(), horizon: page.horizon });
        if may_stream && all_visible {
            (self.wait, self.pass_at) = (FIRST_WAIT, None);
        } else if is_whole {
            // The oldest decides: while others come and go, one that stays invisible must not pause the stream for
            // long.
            let oldest = self.not_yet_visible.oldest();
            let is_progress = std::mem::replace(&mut self.oldest_before, oldest) != oldest;
            self.wait = if is_progress { FIRST_WAIT } else { (self.wait * 2).min(LONGEST_WAIT) };
            self.pass_at = Some(now + self.wait);
        } else {
            self.pass_at = Some(now);
        }
    }
}
