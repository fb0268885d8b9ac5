//! Which operation on the table comes next. One runs at a time; they take turns.

use std::time::{Duration, Instant};

use crate::{
    interface::{KeyName, Ordering, PassReason, Request, Scan, ScanFrom},
    machine::Core,
    parts::Care,
};

/// A page of a backlog takes this part of memory at most: the broker waits for the first, and verdicts wait for any.
const PAGES_IN_MEMORY: usize = 8;
/// Least time between two looks at which transactions are visible, apart from those of passes.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(100);
/// A page of fewer events costs more than it helps.
const SMALLEST_PAGE: usize = 500;

/// The operation that runs, and what decides the next one.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    running: Option<Running>,
    /// Whether the last operation wrote verdicts.
    settled_last: bool,
    /// Whether the last scan was one for events that are due.
    scanned_due: bool,
    /// No scan before this time: the last one failed.
    pub(crate) scan_pause: Option<Instant>,
    /// When it was last looked up which transactions can be seen.
    looked_up_at: Instant,
    /// Of passes, and of looks for what is due.
    pub(crate) careful_pass: Care,
    pub(crate) careful_due: Care,
    /// When the present pass was started.
    pub(crate) pass_started: Instant,
    /// Before this, keys that spilled and replays start no other pass.
    pub(crate) refill_at: Instant,
    /// When the publication and the table are looked at in any case.
    pub(crate) check_at: Instant,
    /// Whether the publication is still to be looked at in this check: the sequence comes first.
    ensures_publication: bool,
    /// The publication as it was when last looked at (none has the table: `Some(None)`), and whether to look again; the stream
    /// waits for that.
    pub(crate) publication: Option<Option<String>>,
    pub(crate) looks_at_publication: bool,
    /// Whether the log was told that the publication leaves columns out.
    pub(crate) told_of_columns: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    /// A scan that may end recovery: the stream must wait for it.
    WholePass,
    Other,
}

impl Turns {
    pub(crate) fn new(careful: bool, check_at: Instant, now: Instant) -> Self {
        Self {
            running: None,
            settled_last: false,
            scanned_due: true, // the pass comes first
            scan_pause: None,
            looked_up_at: now,
            careful_pass: Care::new(careful),
            careful_due: Care::new(careful),
            pass_started: now,
            refill_at: now,
            check_at,
            ensures_publication: false,
            publication: None,
            looks_at_publication: true,
            told_of_columns: false,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Whether a scan is under way that may end recovery: the stream must wait for it.
    pub(crate) fn runs_whole_pass(&self) -> bool {
        self.running == Some(Running::WholePass)
    }

    pub(crate) fn has_finished(&mut self) {
        debug_assert!(self.running.is_some(), "one operation at a time, and no answer without one");
        self.running = None;
    }
}

impl Core {
    /// The operation that is to start now, if none runs.
    pub(crate) fn next_request(&mut self, now: Instant) -> Option<Request> {
        if !self.turns.is_idle() {
            return None;
        }
        let request = self.choose(now)?;
        let is_whole_pass = matches!(&request, Request::Scan(from, _) if from.is_whole_pass());
        self.turns.running = Some(if is_whole_pass { Running::WholePass } else { Running::Other });
        Some(request)
    }

    /// Verdicts free memory, so they come first, but every other time only: a steady flow of them leaves no gap.
    fn choose(&mut self, now: Instant) -> Option<Request> {
        let is_draining = self.drain_until.is_some();
        let settles = self.settling.due().is_some_and(|due| due <= now) || is_draining && self.settling.may_hurry(now);
        let settled_last = std::mem::take(&mut self.turns.settled_last);
        if !settles || settled_last {
            let other = self.choose_other(is_draining, now);
            if other.is_some() || !settles {
                return other;
            }
        }
        self.turns.settled_last = true;
        self.tally.settle_begins(now);
        Some(Request::Settle(self.settling.take()))
    }

    fn choose_other(&mut self, is_draining: bool, now: Instant) -> Option<Request> {
        let is_look_up_due = self.look_up_at().is_some_and(|at| at <= now);
        if self.settling.wants_snapshot(now) || self.resync.wants_snapshot() || is_look_up_due {
            self.turns.looked_up_at = now;
            return Some(Request::Snapshot);
        }
        if is_draining {
            return None; // nothing new is taken
        }
        if self.turns.looks_at_publication && !self.is_paused(now) {
            return Some(Request::LookAtPublication);
        }
        if std::mem::take(&mut self.turns.ensures_publication) {
            return Some(Request::EnsurePublication);
        }
        let is_moving = self.dispatch.is_moving(self.settling.unwritten());
        if self.is_due_next(now) {
            self.turns.scanned_due = true;
            let scan = self.scan(ScanFrom::LOWEST, self.dispatch.keys.spilled());
            self.deferred.reads_ahead = self.resync.is_without_stream();
            let leaves_some_out = scan.heed_holders && !self.deferred.reads_ahead;
            let older_than = self.resync.has_read_before().filter(|_| leaves_some_out);
            let careful = self.turns.careful_due.is_taken(is_moving);
            return Some(Request::Due(Scan { older_than, careful, ..scan }));
        }
        if let Some(from) = self.next_scan(now) {
            self.turns.scanned_due = false;
            self.turns.pass_started = now;
            if from.is_whole_pass() {
                self.tally.pass_begins();
                self.dispatch.begin_pass();
            }
            let scan = self.scan(from, self.dispatch.keys.full());
            let careful = self.turns.careful_pass.is_taken(is_moving);
            return Some(Request::Scan(from, Scan { careful, ..scan }));
        }
        self.check(now)
    }

    /// What announces events can be lost silently: a publication without its table streams nothing, and a replay with
    /// triggers off writes no message. So the publication and the table are checked now and then.
    /// The sequence is checked, too: while it is behind, new events get lower numbers than earlier ones of their key,
    /// and each pass delivers them first.
    fn check(&mut self, now: Instant) -> Option<Request> {
        if self.turns.check_at > now {
            return None;
        }
        self.turns.check_at = now + self.config.check_interval;
        if self.resync.is_live() {
            self.tally.pass_for(PassReason::Check);
            self.resync.want_pass(now);
        }
        self.turns.ensures_publication = self.config.repairs_publication;
        Some(Request::EnsureSequence)
    }

    /// Whether the next scan may end recovery: the stream waits for it.
    pub(crate) fn is_pass_next(&self, now: Instant) -> bool {
        self.next_scan(now).is_some_and(ScanFrom::is_whole_pass)
    }

    /// Whether to look for events that are due. They take turns with the pages of a backlog.
    fn is_due_next(&self, now: Instant) -> bool {
        let takes_turn = !self.turns.scanned_due || self.resync.wants_scan(now).is_none();
        self.deferred.is_due(now) && self.deferred.behind_pass.is_none() && takes_turn && self.can_scan(now)
    }

    fn next_scan(&self, now: Instant) -> Option<ScanFrom> {
        self.resync.wants_scan(now).filter(|_| self.can_scan(now))
    }

    /// A scan needs somewhere to publish to. The pages of a backlog are to be worth their while, too, as long as more
    /// room is to be expected; a pass that holds the stream must not wait for that.
    pub(crate) fn can_scan(&self, now: Instant) -> bool {
        if self.is_paused(now) {
            return false;
        }
        let (events, bytes) = self.dispatch.budget.room();
        let limits = self.config.limits;
        let is_worth_it = events >= limits.max_events / 4 && bytes >= limits.max_bytes / 4;
        let waits_for_nothing = self.resync.is_live() || !self.dispatch.is_moving(self.settling.unwritten());
        self.link.is_ready() && self.dispatch.budget.has_room() && (is_worth_it || waits_for_nothing)
    }

    /// When to look up if what holds the acknowledged position back can be seen by now.
    pub(crate) fn look_up_at(&self) -> Option<Instant> {
        let holds_back = self.holds_at().is_some_and(|at| at < self.progress.flushed());
        holds_back.then(|| self.turns.looked_up_at + LOOK_UP_PAUSE)
    }

    /// Whether the last look at the table has failed just now.
    fn is_paused(&self, now: Instant) -> bool {
        self.turns.scan_pause.is_some_and(|until| now < until)
    }

    fn scan(&self, from: ScanFrom, left_out: Vec<KeyName>) -> Scan {
        let (mut max_rows, mut max_bytes) = self.dispatch.budget.room();
        let reads_pages = !self.resync.is_live() && (!from.is_whole_pass() || self.dispatch.is_empty());
        if reads_pages {
            let limits = self.config.limits;
            max_rows = max_rows.min((limits.max_events / PAGES_IN_MEMORY).max(SMALLEST_PAGE));
            max_bytes = max_bytes.min(limits.max_bytes / PAGES_IN_MEMORY);
        }
        let heed_holders = self.config.policy.ordering != Ordering::None;
        let ScanFrom { after_seq, older_than } = from;
        Scan {
            after_seq,
            older_than,
            max_rows,
            max_bytes,
            known: self.dispatch.known(after_seq),
            left_out,
            max_holders: if heed_holders { self.config.limits.max_events } else { 0 },
            heed_holders,
            careful: false,
        }
    }
}
