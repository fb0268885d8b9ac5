//! When to read the table, and which part of the stream that makes superfluous.
//!
//! The table is the truth and the WAL is the doorbell. There is one way to recover anything, a *pass* over the
//! `PENDING` rows, and two modes:
//!
//! ```text
//!            ┌────────── a pass that fits in memory ──────────┐
//!            │                                                ▼
//!         Parked: the stream is acknowledged unread        Live: events come from the stream;
//!         and the backlog is worked off page by page       a replay calls for a pass
//!            ▲                                                │
//!            └── broker away, memory stuck, pass too large ───┘
//! ```
//!
//! A session that begins without a stream, while its slot is being made, stays parked: one pass follows the other.
//!
//! A pass reads the rows and its own snapshot in one transaction. A streamed transaction that the snapshot sees was
//! covered by the pass; one that it does not see cannot have been.

use std::time::{Duration, Instant};

use crate::{
    faults::{self, Fault},
    interface::{Lsn, Page, ScanFrom, Snapshot},
    parts::{NotYetVisible, Origin},
};

/// Wait before the next pass when a transaction was not visible yet; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(1);
/// Under synchronous replication a commit can stay invisible for as long as a standby is away.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Passes that follow each other more quickly hold the stream meanwhile: some 100 ms in all.
const LONGEST_STREAM_PAUSE: Duration = Duration::from_millis(64);
/// So many transactions may be awaited before their visibility is looked up outside a pass: 4 kB.
const MOST_BEFORE_LOOK_UP: usize = 1024;

/// What the passes make of an insert that the stream brings.
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

/// Whether there is a stream to go on with after a pass. Without one there is only the next pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Not yet.
    Missing,
    /// Since the pass began that runs, and may have missed what was committed in between.
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

/// The state of recovery.
#[derive(Clone, Debug)]
pub(crate) struct Resync {
    mode: Mode,
    stream: Stream,
    covered: Option<Covered>,
    /// The transaction being streamed.
    current: Option<Origin>,
    /// Transactions that left something to the table and were not visible when last looked.
    not_yet_visible: NotYetVisible,
    look_up_at: usize,
    pass_at: Option<Instant>,
    wait: Duration,
    /// The oldest of the awaited transactions when the last whole pass had ended.
    oldest_before: Option<u32>,
    /// The last pass has read all that older transactions have written; 0: it has not come to the end.
    read_before: u32,
    /// Parked, and all there is to see has been read: the stream waits for the rest to become visible.
    closing: bool,
}

crate::marked!(Resync {
    mode, stream, covered, current, not_yet_visible, look_up_at, pass_at, wait, oldest_before as Xid, read_before as Xid, closing,
});

impl Resync {
    /// A session begins parked, and with a pass.
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

    /// The stream has started. What was committed before that is not in it, so a whole pass must begin after it.
    pub(crate) fn stream_started(&mut self, runs_pass: bool, now: Instant) {
        self.stream = if runs_pass { Stream::StartedInPass } else { Stream::Started };
        self.want_pass(now);
    }

    /// Whether there is no stream yet.
    pub(crate) fn is_without_stream(&self) -> bool {
        self.stream == Stream::Missing
    }

    /// Whether the last pass has read all there was to see.
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

    /// What the passes make of an insert of the current transaction.
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

    /// The transaction being streamed.
    pub(crate) fn current(&self) -> Option<Origin> {
        self.current
    }

    /// Nothing behind this position may be acknowledged.
    pub(crate) fn ack_limit(&self) -> Option<Lsn> {
        self.not_yet_visible.ack_limit()
    }

    /// An event of the current transaction stays in the table.
    pub(crate) fn left_to_table(&mut self) {
        self.left_behind(self.current);
    }

    /// An event that this transaction brought, or that a pass found, has gone back to the table.
    pub(crate) fn left_behind(&mut self, origin: Option<Origin>) {
        if let Some(origin) = origin {
            self.not_yet_visible.insert(origin);
        }
    }

    /// The current transaction made rows `PENDING` again: asks for a pass then.
    pub(crate) fn replayed(&mut self, then: Instant) {
        if !faults::is_on(Fault::ReplayUnheard) {
            self.left_to_table();
            self.want_pass(then);
        }
    }

    /// Asks for a pass then, if none comes earlier.
    pub(crate) fn want_pass(&mut self, then: Instant) {
        self.pass_at = Some(self.pass_at.map_or(then, |at| at.min(then)));
    }

    /// A part of the stream behind `position` was passed over, as it could not be sent; `snapshot` was taken afterwards. What it does
    /// not see of that part must be read before events are streamed again.
    pub(crate) fn passed_over(&mut self, snapshot: &Snapshot, position: Lsn) {
        for xid in snapshot.running() {
            self.not_yet_visible.insert(Origin { xid, commit: position });
        }
    }

    /// These transactions may have written while the table was not published. That is not in the stream, so it must be read before events
    /// are streamed again; and the WAL is not kept for it.
    pub(crate) fn left_unstreamed(&mut self, transactions: Vec<u32>) {
        for xid in transactions {
            self.not_yet_visible.insert(Origin { xid, commit: Lsn(u64::MAX) });
        }
    }

    /// From now on the stream is acknowledged unread.
    pub(crate) fn park(&mut self, now: Instant) {
        self.left_to_table(); // the stream may be in the middle of a transaction
        self.covered = None;
        self.closing = false;
        self.mode = Mode::Parked { next: ScanFrom::LOWEST };
        self.pass_at = Some(now);
    }

    /// Whether the stream is to be held for the passes that are about to end recovery.
    pub(crate) fn pauses_stream(&self) -> bool {
        self.closing && self.wait <= LONGEST_STREAM_PAUSE
    }

    /// What this transaction and later ones have written may stand in the table behind others of its key that were not read; with 0,
    /// what any has. `None`: events come from the stream.
    pub(crate) fn has_read_before(&self) -> Option<u32> {
        (!self.is_live()).then_some(self.read_before)
    }

    /// Which page to read now.
    pub(crate) fn wants_scan(&self, now: Instant) -> Option<ScanFrom> {
        let pass_is_due = self.pass_at.is_some_and(|at| at <= now);
        match self.mode {
            Mode::Parked { next } if !next.is_whole_pass() => Some(next),
            _ => pass_is_due.then_some(ScanFrom::LOWEST),
        }
    }

    /// When [`wants_scan`](Self::wants_scan) may change by itself.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.pass_at
    }

    /// Whether it is time to look up which awaited transactions have become visible: their number is bounded by that.
    pub(crate) fn wants_snapshot(&self) -> bool {
        self.not_yet_visible.len() >= self.look_up_at
    }

    /// Forgets the awaited transactions that have become visible. Returns whether all have: then a whole pass under
    /// this snapshot finds everything that was ever left to the table.
    pub(crate) fn seen(&mut self, snapshot: &Snapshot) -> bool {
        self.not_yet_visible.seen(snapshot);
        self.look_up_at = MOST_BEFORE_LOOK_UP.max(2 * self.not_yet_visible.len());
        self.not_yet_visible.is_empty()
    }

    /// A page was read and its rows dealt with.
    pub(crate) fn scanned(&mut self, from: ScanFrom, page: &Page, now: Instant) {
        let was_live = self.is_live();
        let all_visible = self.seen(&page.snapshot);
        let is_whole = page.stopped_at.is_none() && from.is_whole_pass();
        // Only if memory knows every key that is held can events be told apart as they stream.
        let is_last = is_whole && !page.holders_cut;
        self.read_before =
            if is_last || faults::is_on(Fault::DueOvertakes) { page.snapshot.oldest_running() } else { 0 };
        // What was left to the table comes before what is streamed from now on, so all of it must have been read.
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
            // A key that memory does not know may be released between two pages. The next one would bring its later events, and those
            // before them were passed over: so it begins with them.
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
            // The oldest decides: with others coming and going, one that stays invisible must not hold the stream for long.
            let oldest = self.not_yet_visible.oldest();
            let is_progress = std::mem::replace(&mut self.oldest_before, oldest) != oldest;
            self.wait = if is_progress { FIRST_WAIT } else { (self.wait * 2).min(LONGEST_WAIT) };
            self.pass_at = Some(now + self.wait);
        } else {
            self.pass_at = Some(now);
        }
    }
}
