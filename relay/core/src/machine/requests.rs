//! Which operation on the table comes next. Only one runs at a time.

use std::time::Instant;

use super::Core;
use crate::interface::{Effect, KeyName, Now, Ordering, PassReason, Request, Scan, ScanFrom};

/// A page of a backlog takes at most one part of memory in this many, since the broker waits for the first page, and
/// verdicts wait for each.
const PAGES_IN_MEMORY: usize = 8;
/// Most events that one statement keeps in doubt: others wait for it.
const DOUBTS_AT_A_TIME: usize = 2000;
/// Least events in a page of a backlog: reading a smaller one costs more than it helps.
const SMALLEST_PAGE: usize = 500;

impl Core {
    pub(super) fn start_operation(&mut self, now: Now) -> Option<Effect> {
        let request = self.next_request(now);
        self.leave_behind();
        request.map(Effect::Table)
    }

    /// The operation to start now; `None`: one is running, or nothing is to be done.
    fn next_request(&mut self, now: Now) -> Option<Request> {
        if !self.operations.is_idle() {
            return None;
        }
        let known = || self.dispatch.known(0);
        if self.read_back.floor.look(known, self.link.is_ready(), now.instant) {
            self.dispatch.unanswered_events().for_each(|event| self.read_back.keep_if_earlier(event, now));
        }
        let request = match self.read_back.doubts(DOUBTS_AT_A_TIME, now.instant) {
            Some(doubts) => Request::Keep(doubts),
            None => self.choose(now.instant)?,
        };
        self.operations.starts(matches!(&request, Request::Scan(from, _) if from.is_whole_pass()));
        Some(request)
    }

    /// Verdicts free memory, so they come first, but only every other time: a steady flow of them would leave no gap
    /// for reading.
    fn choose(&mut self, now: Instant) -> Option<Request> {
        let is_draining = self.ending.is_draining();
        let is_due = self.settling.due().is_some_and(|due| due <= now) || is_draining && self.settling.may_hurry(now);
        let settles = is_due && !self.read_back.holds_verdicts();
        let settled_last = self.operations.takes_settled_last();
        if !settles || settled_last {
            let other = self.choose_other(is_draining, now);
            if other.is_some() || !settles {
                return other;
            }
        }
        self.operations.settles();
        self.tally.settle_begins(now);
        Some(Request::Settle(self.settling.take()))
    }

    fn choose_other(&mut self, is_draining: bool, now: Instant) -> Option<Request> {
        let is_look_up_due = self.look_up_at().is_some_and(|at| at <= now);
        if self.settling.wants_snapshot(now) || self.resync.wants_snapshot() || is_look_up_due {
            self.operations.looks_up(now);
            return Some(Request::Snapshot);
        }
        if is_draining {
            return None; // a drain takes nothing new
        }
        if self.publication.is_look_due() && !self.operations.is_paused(now) {
            return Some(Request::LookAtPublication);
        }
        if self.publication.takes_repair() {
            return Some(Request::EnsurePublication);
        }
        let is_moving = self.dispatch.is_moving(self.settling.unwritten());
        if self.is_due_next(now) {
            let row_by_row = self.operations.scans_due(is_moving);
            let scan = self.scan(ScanFrom::LOWEST, self.dispatch.keys.spilled());
            let reads_ahead = self.resync.is_without_stream();
            self.deferred.looks(reads_ahead);
            let leaves_some_out = scan.respect_holds && !reads_ahead;
            let older_than = self.resync.has_read_before().filter(|_| leaves_some_out);
            return Some(Request::Due(Scan { older_than, row_by_row, ..scan }));
        }
        if let Some(from) = self.next_scan(now) {
            let row_by_row = self.operations.scans_page(is_moving, now);
            if from.is_whole_pass() {
                self.tally.pass_begins();
                self.dispatch.begin_pass();
            }
            let scan = self.scan(from, self.dispatch.keys.full());
            return Some(Request::Scan(from, Scan { row_by_row, ..scan }));
        }
        self.check(now)
    }

    /// The messages that announce events can be missing: a publication without the table streams nothing, and a replay
    /// with triggers disabled writes none. So the publication and the table are checked regularly, and the sequence as
    /// well: while it lags behind, new events get lower numbers than earlier ones of their key, and passes deliver them
    /// first.
    fn check(&mut self, now: Instant) -> Option<Request> {
        if self.operations.next_check() > now {
            return None;
        }
        self.operations.check_at(now + self.config.check_interval);
        if self.resync.is_live() {
            self.tally.pass_for(PassReason::Check);
            self.resync.want_pass(now);
        }
        if self.config.repairs_publication {
            self.publication.repair();
        }
        Some(Request::EnsureSequence)
    }

    /// Whether the next scan may end recovery: the stream is paused until it has.
    pub(super) fn is_pass_next(&self, now: Instant) -> bool {
        self.next_scan(now).is_some_and(ScanFrom::is_whole_pass)
    }

    /// Whether to look for events that are due. Such looks alternate with the pages of a backlog.
    fn is_due_next(&self, now: Instant) -> bool {
        let is_its_time = !self.operations.scanned_due_last() || self.resync.wants_scan(now).is_none();
        self.deferred.is_due(now) && !self.deferred.is_waiting_for_pass() && is_its_time && self.can_scan(now)
    }

    fn next_scan(&self, now: Instant) -> Option<ScanFrom> {
        self.resync.wants_scan(now).filter(|_| self.can_scan(now))
    }

    /// Whether a scan may start: it needs a broker to publish to, and room in memory. A page of a backlog also waits
    /// for as much room as makes it worthwhile, while more is to be expected; a pass that pauses the stream must not
    /// wait for that.
    pub(super) fn can_scan(&self, now: Instant) -> bool {
        if self.operations.is_paused(now) {
            return false;
        }
        let (events, bytes) = self.dispatch.budget.room();
        let limits = self.config.limits;
        let is_worth_it = events >= limits.max_events / 4 && bytes >= limits.max_bytes / 4;
        let waits_for_nothing = self.resync.is_live() || !self.dispatch.is_moving(self.settling.unwritten());
        self.link.is_ready() && self.dispatch.budget.has_room() && (is_worth_it || waits_for_nothing)
    }

    fn scan(&self, from: ScanFrom, left_out: Vec<KeyName>) -> Scan {
        let (mut max_rows, mut max_bytes) = self.dispatch.budget.room();
        let reads_pages = !self.resync.is_live() && (!from.is_whole_pass() || self.dispatch.is_empty());
        if reads_pages {
            let limits = self.config.limits;
            max_rows = max_rows.min((limits.max_events / PAGES_IN_MEMORY).max(SMALLEST_PAGE));
            max_bytes = max_bytes.min(limits.max_bytes / PAGES_IN_MEMORY);
        }
        let respect_holds = self.config.policy.ordering != Ordering::None;
        let ScanFrom { after_seq, older_than } = from;
        Scan {
            after_seq,
            older_than,
            max_rows,
            max_bytes,
            known: self.dispatch.known(after_seq),
            left_out,
            max_holders: if respect_holds { self.config.limits.max_events } else { 0 },
            respect_holds,
            row_by_row: false,
        }
    }
}
