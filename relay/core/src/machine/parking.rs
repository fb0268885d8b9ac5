//! When to park: events that cannot leave are left to the table, so that the slot goes on moving.

use std::time::{Duration, Instant};

use super::Core;
use crate::{
    faults::{self, Fault},
    interface::{Reason, Report, ScanFrom},
};

/// Once a commit is visible, it limits the acknowledged position for at most this long while its events wait for their
/// verdicts.
const LIMITS_ACK_FOR: Duration = Duration::from_secs(10);

impl Core {
    /// From now on the stream is acknowledged unread, and a pass is due.
    pub(super) fn park(&mut self, reason: Reason, now: Instant) {
        self.report(Report::Parked(reason));
        self.tally.pass_for(reason.of_pass());
        self.resync.park(now);
    }

    /// Parks once events have been unable to leave for `park_after`, or too many keys are known.
    pub(super) fn park_if_stuck(&mut self, now: Instant) {
        if self.ending.is_draining() {
            return;
        }
        self.stop_waiting_for_verdicts(now);
        // A pass from the beginning forgets the keys that need not be known.
        let knows_too_many_keys = self.dispatch.keys.len() > 2 * self.config.limits.max_events;
        let is_pass_due = self.resync.wants_scan(now).is_some_and(ScanFrom::is_whole_pass);
        if knows_too_many_keys && !self.operations.runs_whole_pass() && !is_pass_due {
            self.park(Reason::TooManyKeys, now);
        }
        if !self.resync.is_live() {
            return;
        }
        let patience = self.config.park_after;
        let is_full = !self.dispatch.budget.has_room();
        if self.has_lasted(self.link.away_since(), now) {
            self.park(Reason::BrokerAway, now);
        } else if self.congestion.is_full_for(patience, is_full, now)
            || is_full && self.has_lasted(self.dispatch.availability.since(), now)
        {
            self.park(Reason::MemoryFull { events: self.dispatch.len() }, now);
        } else {
            // More is emitted than `max_rate` lets leave. The backlog would pin the WAL in the stream, but not in the
            // table.
            let is_paced = self.dispatch.budget.is_crowded()
                && self.dispatch.availability.since().is_none()
                && self.pace.is_used_up(now);
            if self.congestion.is_paced_for(patience, is_paced, now) {
                self.park(Reason::RateReached, now);
            }
        }
    }

    /// Whether the condition has held for `park_after`.
    pub(super) fn has_lasted(&self, since: Option<Instant>, now: Instant) -> bool {
        since.is_some_and(|since| now.duration_since(since) >= self.config.park_after)
    }

    /// When [`park_if_stuck`](Self::park_if_stuck) may park without an input.
    pub(super) fn parking_timers(&self) -> [Option<Instant>; 4] {
        let since = [self.link.away_since(), self.dispatch.availability.since(), self.congestion.stuck_since()];
        let [away, unavailable, full] = since.map(|since| since.map(|since| since + self.config.park_after));
        [away, unavailable, full, self.progress.oldest().map(|oldest| oldest + LIMITS_ACK_FOR)]
    }

    /// A commit that has waited long for its events' verdicts no longer limits the acknowledged position, since its
    /// events stand in the table as well.
    fn stop_waiting_for_verdicts(&mut self, now: Instant) {
        if let Some(then) = now.checked_sub(LIMITS_ACK_FOR).filter(|_| !faults::is_on(Fault::WaitingPinsLog)) {
            for origin in self.progress.stop_waiting(then) {
                self.long_unsettled.insert(origin);
            }
        }
    }
}
