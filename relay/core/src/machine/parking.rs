//! When events are left to the table: the slot must go on moving, whatever cannot leave.

use std::time::{Duration, Instant};

use crate::{
    faults::{self, Fault},
    interface::{Lsn, Reason, Report},
    machine::Core,
};

/// A commit holds the slot back for so long at most, once others can see it.
const HOLDS_LOG_FOR: Duration = Duration::from_secs(10);

/// How long what has been so.
#[derive(Clone, Debug)]
pub(crate) struct Parking {
    /// When an event last left memory.
    pub(crate) moved_at: Instant,
    full_since: Option<Instant>,
    /// Since when half of memory has been taken by events that wait for their turn in time.
    paced_since: Option<Instant>,
    /// Whether the log was told that the broker refuses everything.
    told_of_refusals: bool,
    /// Whether the log was told, since events were streamed last, that they wait for the broker.
    told_away: bool,
    /// The mode that the log was told last; `None`: it is to be told in any case.
    told_live: Option<bool>,
}

impl Parking {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            moved_at: now,
            full_since: None,
            paced_since: None,
            told_of_refusals: false,
            told_away: false,
            told_live: None,
        }
    }
}

impl Core {
    /// From now on the stream is acknowledged unread, and a pass is asked for.
    pub(crate) fn park(&mut self, reason: Reason, now: Instant) {
        if reason.is_news() {
            self.parking.told_live = None;
            self.report(Report::Parked(reason));
        }
        self.tally.pass_for(reason.of_pass());
        self.resync.park(now);
    }

    /// Parks when nothing can be published for longer than a moment.
    pub(crate) fn park_if_stuck(&mut self, now: Instant) {
        if self.drain_until.is_some() {
            return;
        }
        self.let_go(now);
        self.tell_refusal(now);
        // A pass from the beginning sorts them out.
        let knows_too_many_keys = self.dispatch.keys.len() > 2 * self.config.limits.max_events;
        if knows_too_many_keys && !self.turns.runs_whole_pass() && !self.is_pass_next(now) {
            self.park(Reason::TooManyKeys, now);
        }
        let patience = self.config.park_after;
        let is_away = self.link.away_since().is_some_and(|since| now.duration_since(since) >= patience);
        if !self.resync.is_live() {
            // A session that begins without a broker is parked from its beginning.
            if is_away && !std::mem::replace(&mut self.parking.told_away, true) {
                self.report(Report::Parked(Reason::BrokerAway));
            }
            return;
        }
        self.parking.told_away = is_away;
        if is_away {
            self.park(Reason::BrokerAway, now);
        } else if self.is_full_for(patience, now) || self.is_refused_and_full(patience, now) {
            self.park(Reason::MemoryFull { events: self.dispatch.len() }, now);
        } else if self.is_paced_for(patience, now) {
            self.park(Reason::RateReached, now);
        }
    }

    /// When [`park_if_stuck`](Self::park_if_stuck) may find something although nothing happens.
    pub(crate) fn parking_timers(&self) -> [Option<Instant>; 4] {
        let full_since = self.parking.full_since.map(|since| since.max(self.parking.moved_at));
        let since = [self.link.away_since(), self.dispatch.refusals.since(), full_since];
        let [away, refusing, full] = since.map(|since| since.map(|since| since + self.config.park_after));
        [away, refusing, full, self.progress.oldest().map(|oldest| oldest + HOLDS_LOG_FOR)]
    }

    /// Says once that a backlog is being worked off, and once that events are streamed again.
    pub(crate) fn tell_mode(&mut self, horizon: Lsn, has_more: bool) {
        let is_live = self.resync.is_live();
        if self.parking.told_live == Some(is_live) || !(is_live || has_more) {
            return;
        }
        self.parking.told_live = Some(is_live);
        let acknowledged = self.acknowledged();
        self.report(if is_live {
            Report::Streaming { horizon, acknowledged, in_memory: self.dispatch.len() }
        } else {
            Report::WorkingOff { acknowledged }
        });
    }

    /// What waits for its verdict holds the slot back no longer, whatever the reason: it stands in the table, too.
    fn let_go(&mut self, now: Instant) {
        if let Some(then) = now.checked_sub(HOLDS_LOG_FOR).filter(|_| !faults::is_on(Fault::WaitingPinsLog)) {
            for origin in self.progress.abandon(then) {
                self.abandoned.insert(origin);
            }
        }
    }

    /// Since when the broker refuses everything, once that is told.
    pub(crate) fn refusing_since(&self) -> Option<Instant> {
        self.dispatch.refusals.since().filter(|_| self.parking.told_of_refusals)
    }

    /// Says once that the broker refuses everything, and once that it does not any longer.
    fn tell_refusal(&mut self, now: Instant) {
        let Some(since) = self.dispatch.refusals.since() else {
            if std::mem::take(&mut self.parking.told_of_refusals) {
                self.report(Report::RefusingNoMore { is_live: self.resync.is_live() });
            }
            return;
        };
        let lasted = now.duration_since(since);
        if lasted < self.config.park_after {
            return;
        }
        if !std::mem::replace(&mut self.parking.told_of_refusals, true) {
            self.report(Report::Refusing { lasted, routes: self.dispatch.refusals.refused_routes() });
        }
    }

    /// Whether the broker has refused everything for so long, and memory is full: what still leaves makes room for the table.
    fn is_refused_and_full(&self, patience: Duration, now: Instant) -> bool {
        let is_refused = self.dispatch.refusals.since().is_some_and(|since| now.duration_since(since) >= patience);
        is_refused && !self.dispatch.budget.has_room()
    }

    /// Whether more has been emitted than may leave in that time, for so long: the stream would pin the WAL, the table does not.
    fn is_paced_for(&mut self, patience: Duration, now: Instant) -> bool {
        let is_crowded = self.dispatch.budget.is_crowded() && self.dispatch.refusals.since().is_none();
        if !is_crowded || !self.pace.is_used_up(now) {
            self.parking.paced_since = None;
            return false;
        }
        now.duration_since(*self.parking.paced_since.get_or_insert(now)) >= patience
    }

    /// Whether memory has been full, and nothing has left it, for so long.
    fn is_full_for(&mut self, patience: Duration, now: Instant) -> bool {
        if self.dispatch.budget.has_room() {
            self.parking.full_since = None;
            return false;
        }
        let full_since = *self.parking.full_since.get_or_insert(now);
        now.duration_since(full_since.max(self.parking.moved_at)) >= patience
    }
}
