//! What is asked of the table, when, and what follows from its answers.

use std::time::{Duration, Instant};

use tracing::{debug, warn};
use uuid::Uuid;

use super::{Session, SessionError, desk::Finished};
use crate::{
    dispatch::{KeyName, Ordering},
    repeats::Repeats,
    resync::{ScanFrom, Scanned},
    settle::Done,
    store::{Due, Page, Remedy, Scan, StoreError},
};

/// Wait before verdicts are written again after a deadlock, a lock timeout or the like.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);
/// Wait before the table is read again after such an error.
const SCAN_PAUSE: Duration = Duration::from_millis(100);
/// A page of a backlog takes this part of memory at most: the broker waits for the first, and verdicts wait for any.
const PAGES_IN_MEMORY: usize = 8;
/// A page of fewer events costs more than it helps.
const SMALLEST_PAGE: usize = 500;
/// Keys that spilled and replays may take this part of the time for passes of theirs: a pass holds the stream.
const REFILL_SHARE: u32 = 10;

impl Session<'_> {
    /// Starts the operation that is due.
    pub(super) fn start_store_operation(&mut self, now: Instant) {
        let draining = self.drain_until.is_some();
        let settles = self.settling.due().is_some_and(|due| due <= now) || (draining && self.settling.may_hurry(now));
        if settles && !self.settled_last {
            self.settled_last = true;
            return self.desk.settle(self.settling.take());
        }
        // Verdicts free memory, so they come first, but every other time only: a steady flow of them leaves no gap.
        self.settled_last = false;
        if self.settling.wants_snapshot(now) || self.resync.wants_snapshot() {
            self.desk.snapshot();
        } else if draining {
            // nothing new is taken
        } else if self.looks_at_publication && !self.is_paused(now) {
            self.desk.published(self.config.publication.clone());
        } else if self.is_due_next(now) {
            self.scanned_due = true;
            let scan = self.scan(ScanFrom::LOWEST, self.dispatch.spilled_keys());
            self.desk.due(Scan { careful: self.careful_due, ..scan });
        } else if let Some(from) = self.next_scan(now) {
            self.scanned_due = false;
            self.pass_started = now;
            if from.is_whole_pass() {
                self.dispatch.begin_pass();
                self.leave_behind();
            }
            let scan = self.scan(from, self.dispatch.full_keys());
            self.desk.scan(from, Scan { careful: self.careful_pass, ..scan });
        } else if self.check_at <= now {
            self.check_at = now + self.config.check_interval;
            self.check(now);
        }
        if self.desk.is_idle() && settles {
            self.settled_last = true;
            self.desk.settle(self.settling.take());
        }
    }

    /// Whether the next scan may end recovery: the stream waits for it.
    pub(super) fn is_pass_next(&self, now: Instant) -> bool {
        self.next_scan(now).is_some_and(ScanFrom::is_whole_pass)
    }

    /// Whether to look for events that are due. They take turns with the pages of a backlog.
    fn is_due_next(&self, now: Instant) -> bool {
        let takes_turn = !self.scanned_due || self.resync.wants_scan(now).is_none();
        self.deferred.is_due(now) && takes_turn && self.can_scan(now)
    }

    fn next_scan(&self, now: Instant) -> Option<ScanFrom> {
        self.resync.wants_scan(now).filter(|_| self.can_scan(now))
    }

    /// A scan needs somewhere to publish to. The pages of a backlog are to be worth their while, too, as long as more
    /// room is to be expected; a pass that holds the stream must not wait for that.
    pub(super) fn can_scan(&self, now: Instant) -> bool {
        if self.is_paused(now) {
            return false;
        }
        let (events, bytes) = self.dispatch.room();
        let limits = self.config.limits();
        let is_worth_it = events >= limits.max_events / 4 && bytes >= limits.max_bytes / 4;
        let waits_for_nothing = self.resync.is_live() || !self.dispatch.is_moving();
        self.link.is_open() && self.dispatch.has_room() && (is_worth_it || waits_for_nothing)
    }

    /// Whether the last look at the table has failed just now.
    fn is_paused(&self, now: Instant) -> bool {
        self.scan_pause.is_some_and(|until| now < until)
    }

    fn scan(&self, from: ScanFrom, left_out: Vec<KeyName>) -> Scan {
        let (mut max_rows, mut max_bytes) = self.dispatch.room();
        let reads_pages = !self.resync.is_live() && (!from.is_whole_pass() || self.dispatch.is_empty());
        if reads_pages {
            let limits = self.config.limits();
            max_rows = max_rows.min((limits.max_events / PAGES_IN_MEMORY).max(SMALLEST_PAGE));
            max_bytes = max_bytes.min(limits.max_bytes / PAGES_IN_MEMORY);
        }
        let heed_holds = self.config.ordering != Ordering::None;
        let max_holding = if heed_holds { self.config.max_events } else { 0 };
        let ScanFrom { after_seq, older_than } = from;
        Scan {
            after_seq,
            older_than,
            max_rows,
            max_bytes,
            known: self.dispatch.known(after_seq),
            left_out,
            max_holding,
            heed_holds,
            careful: false,
        }
    }

    pub(super) fn store_finished(&mut self, finished: Finished) -> Result<(), SessionError> {
        let now = Instant::now();
        match finished {
            Finished::Settled(batch, not_written) => {
                self.trouble = Repeats::default();
                // A verdict that cannot be written yet does not pin the log: its row stays PENDING in the table.
                self.let_go_of(not_written.missing.iter().chain(&not_written.locked));
                for done in self.settling.written(batch, &not_written, |id| self.dispatch.xid(id)) {
                    self.settled(done, now);
                }
                self.refill(now);
            }
            Finished::NotSettled(batch, error) => {
                let (events, refused_before) = (batch.settlements.len(), batch.refused_before);
                match self.settling.put_back(batch, error.remedy(), now, SETTLE_PAUSE) {
                    Some(id) => {
                        if !refused_before {
                            warn!(target: "relay", event = %id, %error, "the server refuses this row's verdict, as by a trigger: it is put aside, and tried again now and then");
                        }
                        self.let_go_of([&id]);
                    }
                    None if error.remedy() == Remedy::Isolate => {
                        debug!(target: "relay", %error, events, "verdicts not written; looking for the row");
                    }
                    None => self.tell_trouble("verdicts not written; trying again", &error, events),
                }
            }
            Finished::NotScanned(error) => {
                self.tell_trouble("the table was not read; trying again", &error, 0);
                self.scan_pause = Some(now + SCAN_PAUSE);
            }
            Finished::Scanned(from, page) => self.scanned(from, page, now),
            Finished::Checked(publication) => self.checked(&publication),
            Finished::Published(published) => self.take_publication(published, now),
            Finished::Due(due) => self.deferred_due(due, now),
            Finished::Snapshot(snapshot) => {
                self.settling.seen(&snapshot, now);
                self.resync.seen(&snapshot);
            }
        }
        Ok(())
    }

    /// At a rate for people.
    fn tell_trouble(&mut self, what: &str, error: &StoreError, events: usize) {
        if let (true, times) = self.trouble.count(&error.to_string()) {
            warn!(target: "relay", %error, events, times, "{what}");
        }
    }

    fn let_go_of<'i>(&mut self, ids: impl IntoIterator<Item = &'i Uuid>) {
        for ticket in ids.into_iter().filter_map(|id| self.dispatch.detach(id)) {
            self.progress.settled(ticket);
        }
    }

    fn settled(&mut self, done: Done, now: Instant) {
        let Done { settlement, gone } = done;
        if gone {
            warn!(target: "relay", event = %settlement.id, "the row was deleted, or its event finished by someone else, before its verdict could be written");
        }
        if let Some(ticket) = self.dispatch.settled(&settlement.id, gone) {
            self.progress.settled(ticket);
        }
        if let Some(wait) = settlement.retry_in {
            self.deferred.look(now + wait);
        }
        self.moved_at = now;
    }

    fn scanned(&mut self, from: ScanFrom, page: Page, now: Instant) {
        if from.is_whole_pass() {
            self.dispatch.learn_holding(&page.holding);
            // A key that spilled may be taken up again only by a pass that finds all of its rows.
            if self.resync.seen(&page.snapshot) {
                self.dispatch.unspill(&page.left_out);
            }
        }
        let found = page.events.len();
        for event in page.events {
            self.dispatch.admit(event, None);
        }
        debug!(target: "relay", after_seq = from.after_seq, found, complete = page.stopped_at.is_none(), "read the table");
        self.careful_pass &= page.stopped_at.is_some();
        let horizon = page.horizon;
        let Page { ref snapshot, stopped_at, holding_cut, .. } = page;
        let scanned = Scanned { from, snapshot, horizon, stopped_at, knows_holds: !holding_cut };
        self.resync.scanned(scanned, now);
        if !self.resync.is_live() {
            self.progress.abandon();
        }
        if from.is_whole_pass() {
            self.deferred.look(now);
            self.refill_at = now + REFILL_SHARE * now.duration_since(self.pass_started);
            self.refill(now); // a key may wait for something that this pass could not bring
        }
        self.log_mode(horizon, stopped_at.is_some());
    }

    /// Reads the table for keys that have worked off what they had in memory.
    fn refill(&mut self, now: Instant) {
        if self.resync.is_live() && self.dispatch.wants_refill() {
            self.resync.want_pass(now.max(self.refill_at));
        }
    }

    fn deferred_due(&mut self, due: Due, now: Instant) {
        self.careful_due &= due.cut;
        let found = due.events.len();
        // The stream may have filled memory meanwhile.
        let mut taken = 0;
        for event in due.events {
            if !self.dispatch.has_room() {
                break;
            }
            self.dispatch.admit(event, None); // one that spills is looked for again after a pass
            taken += 1;
        }
        self.deferred.looked(&due.snapshot, due.cut || taken < found, due.next_in, now);
    }

    /// A doorbell can be lost without a sound: a publication without its table streams nothing, a replay with triggers off
    /// rings no bell. So the publication and the table are looked at now and then.
    fn check(&mut self, now: Instant) {
        if self.resync.is_live() {
            self.resync.want_pass(now);
        }
        if self.config.create_slot {
            self.desk.ensure_publication(self.config.publication.clone());
        }
    }

    fn checked(&mut self, outcome: &str) {
        if outcome != "exists" {
            warn!(target: "relay", publication = self.config.publication, outcome, "the publication was missing, or had lost the table; it is mended");
            self.looks_at_publication = true;
        }
    }
}
