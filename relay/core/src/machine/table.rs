//! What follows from reading the table and from writing to it.

use std::time::{Duration, Instant};

use super::Core;
use crate::{
    dispatch::Admission,
    interface::{
        Batch, Due, End, Failure, Finished, NotWritten, Ordering, Page, PassReason, Published, Reason, Remedy, Report,
        ScanFrom, Sequence,
    },
    parts::{Found, Settled},
};

/// Pause before verdicts are written again after an error such as a deadlock or a lock timeout.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);
/// Pause before the table is read again after such an error.
const SCAN_PAUSE: Duration = Duration::from_millis(100);
/// While a backlog is read, events that are deferred meanwhile may be late by this much.
const LOOK_IN_BACKLOG: Duration = Duration::from_secs(1);

impl Core {
    pub(super) fn finished(&mut self, finished: Finished, now: Instant) {
        self.operations.has_finished();
        match finished {
            Finished::Settled(batch, except) => self.settled(batch, except, now),
            Finished::NotSettled(batch, failure) => self.not_settled(batch, failure, now),
            Finished::Kept(doubts) => self.read_back.kept(&doubts, now),
            Finished::NotKept { is_transient, error } => {
                if self.read_back.not_kept(is_transient, now) {
                    self.report(Report::NotKept(error));
                }
            }
            Finished::NotRead(Failure { error, .. }) => {
                self.report(Report::TableTrouble { error, verdicts: None });
                self.operations.pause_until(now + SCAN_PAUSE);
            }
            Finished::Scanned(from, page) => self.scanned(from, page, now),
            Finished::PublicationEnsured(done) => self.publication_ensured(done, now),
            Finished::PublicationRefused(error) if self.publication.is_useless() => {
                self.report(Report::RepairRefused(error));
            }
            Finished::PublicationRefused(error) => self.finish(End::RepairRefused(error), now),
            Finished::Sequence(Sequence::InOrder) => {}
            Finished::Sequence(Sequence::Mended(done)) => self.report(Report::SequenceMended(done)),
            Finished::Sequence(Sequence::Refused(error)) => self.report(Report::SequenceRefused(error)),
            Finished::Published(published) => self.published(published, now),
            Finished::Due(due) => self.due(due, now),
            Finished::Snapshot(snapshot) => {
                self.settling.seen(&snapshot, now);
                self.seen(&snapshot);
            }
        }
    }

    /// The publication was checked. `done`: what was repaired.
    fn publication_ensured(&mut self, done: Option<String>, now: Instant) {
        if self.publication.is_useless() {
            self.finish(End::PublishedAgain, now);
        }
        if let Some(done) = done {
            self.publication.may_have_changed();
            self.report(Report::PublicationRepaired(done));
        }
    }

    /// If the publication has changed, events that were not streamed come before those that are streamed now. So all
    /// are left to the table until a pass has read it to the end.
    fn published(&mut self, published: Published, now: Instant) {
        match self.publication.looked(published, self.resync.is_live()) {
            Found::Same => {}
            Found::First(unpublished) => self.resync.left_unstreamed(unpublished),
            Found::Changed(unpublished) => {
                if self.resync.is_live() {
                    self.park(Reason::PublicationChanged, now);
                }
                self.resync.left_unstreamed(unpublished);
            }
        }
    }

    fn settled(&mut self, batch: Batch, except: NotWritten, now: Instant) {
        self.tally.settle_ends(now);
        for Settled { verdict, gone } in self.settling.written(batch, except, |id| self.dispatch.xid(id)) {
            if gone {
                self.report(Report::RowGone(verdict.id));
            } else {
                self.tally.settled(&verdict);
            }
            self.read_back.settled(&verdict, gone);
            if let Some(ticket) = self.dispatch.settled(&verdict.id, gone) {
                self.progress.settled(ticket);
            }
            if let Some(wait) = verdict.retry_in {
                self.deferred.look(now + wait);
            }
            self.congestion.moved(now);
        }
        self.refill(now);
    }

    fn not_settled(&mut self, batch: Batch, Failure { remedy, error }: Failure, now: Instant) {
        let (verdicts, refused_before) = (batch.verdicts.len(), batch.refused_before);
        match self.settling.put_back(batch, remedy, now, SETTLE_PAUSE) {
            Some(_) if refused_before => {}
            Some(id) => self.report(Report::VerdictRefused { id, error }),
            None if remedy == Remedy::Isolate => self.report(Report::Isolating { error, verdicts }),
            None => self.report(Report::TableTrouble { error, verdicts: Some(verdicts) }),
        }
    }

    fn scanned(&mut self, from: ScanFrom, mut page: Page, now: Instant) {
        self.long_unsettled.seen(&page.snapshot);
        if from.is_whole_pass() {
            self.dispatch.learn_holders(&page.holders);
            self.read_back.floor.begins_pass(page.holders.len(), page.snapshot.next_xid());
            // Keys that spilled may be admitted again only by a pass that finds all of their rows.
            if self.resync.seen(&page.snapshot) {
                self.dispatch.keys.unspill(&page.left_out);
            }
        }
        let complete = page.stopped_at.is_none();
        let was_live = self.resync.is_live();
        let found = page.events.len();
        for event in page.events.drain(..) {
            self.tally.scanned(self.dispatch.admit(event, None) == Admission::Admitted);
        }
        if complete {
            self.operations.has_read_pending();
            let oldest_running = from.older_than.unwrap_or_else(|| page.snapshot.oldest_running());
            self.read_back.floor.has_read_pending(self.dispatch.keys.spilled_count(), oldest_running);
        }
        self.resync.scanned(from, &page, now);
        let acknowledged = self.acknowledged();
        self.report(Report::Scanned { after_seq: from.after_seq, found, complete, acknowledged });
        if self.resync.is_live() && !was_live {
            let in_memory = self.dispatch.len();
            self.report(Report::Streaming { horizon: page.horizon, acknowledged, in_memory });
        }
        if complete
            && from.is_whole_pass()
            && let Some(mut due) = self.deferred.take_behind_pass(now)
        {
            let found = due.events.len();
            if !self.resync.has_read_all() {
                // Holders and events without a key overtake nothing. The others are looked for again.
                due.events.retain(|event| event.holds_key || event.aggregate_id.is_none());
            }
            let left_out = found - due.events.len();
            self.take_due(due, left_out, now);
        }
        if from.is_whole_pass() {
            self.deferred.look(now);
            self.operations.pass_ends(now);
            self.refill(now); // a key may wait for events that this pass could not bring
        } else {
            // An event that is deferred while a backlog is read is left to the table and sets no timer.
            self.deferred.look(now + LOOK_IN_BACKLOG);
        }
    }

    /// Asks for a pass if a key has events in the table and room in memory.
    fn refill(&mut self, now: Instant) {
        if self.resync.is_live() && self.dispatch.keys.wants_refill() {
            self.tally.pass_for(PassReason::Refill);
            self.resync.want_pass(self.operations.next_refill(now));
        }
    }

    /// The events that are due leave now if the session has a stream: earlier events of their keys that a pass missed
    /// are left out with them, or streamed. Without a stream only the next pass can bring those, so the events that are
    /// due wait for it.
    fn due(&mut self, due: Due, now: Instant) {
        let respects_holds = self.config.policy.ordering != Ordering::None;
        if self.deferred.reads_ahead() && respects_holds && !due.events.is_empty() {
            self.deferred.wait_for_pass(due, now);
            self.resync.want_pass(now);
        } else {
            self.take_due(due, 0, now);
        }
    }

    /// `left_out`: events that are due as well, and are left to another look.
    fn take_due(&mut self, due: Due, left_out: usize, now: Instant) {
        if !due.cut {
            self.operations.has_read_due();
        }
        let found = due.events.len();
        // The stream may have filled memory meanwhile.
        let mut taken = 0;
        for event in due.events {
            if !self.dispatch.budget.has_room() {
                break;
            }
            // A later look finds an event again that spills.
            self.tally.scanned(self.dispatch.admit(event, None) == Admission::Admitted);
            taken += 1;
        }
        let is_cut = due.cut || taken < found;
        if !is_cut && left_out == 0 {
            self.read_back.floor.has_read_due();
        }
        self.deferred.looked(&due.snapshot, is_cut, due.next_in, now);
    }
}
