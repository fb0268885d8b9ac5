//! The state machine as a whole: what comes next, and when to be woken.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{
    awaited::Awaited,
    broker::Link,
    config::{Config, Now, Start},
    deferred::Deferred,
    dispatch::Dispatch,
    effect::{Effect, End, Report},
    faults::{self, Fault},
    input::Input,
    lsn::Lsn,
    parking::Parking,
    progress::Progress,
    resync::Resync,
    settling::{Batching, Settling},
    snapshot::Snapshot,
    turns::Turns,
    verdict::{Answer, Outcome},
};

/// At most so often is an advanced position acknowledged, beside the regular status updates.
const STATUS_PAUSE: Duration = Duration::from_millis(100);

/// All that a relay's session decides.
///
/// After each [`on`](Self::on), ask [`next`](Self::next) until it has nothing more, and once more at [`wake_at`](Self::wake_at) if nothing
/// happens before.
#[derive(Clone, Debug)]
pub struct Core {
    pub(crate) config: Config,
    pub(crate) dispatch: Dispatch,
    pub(crate) settling: Settling,
    pub(crate) progress: Progress,
    pub(crate) resync: Resync,
    /// Transactions whose events are in memory, and whose commits wait for their verdicts no longer.
    pub(crate) abandoned: Awaited,
    pub(crate) deferred: Deferred,
    pub(crate) link: Link,
    pub(crate) turns: Turns,
    pub(crate) parking: Parking,
    pub(crate) status: StatusUpdates,
    reports: VecDeque<Report>,
    /// When the time was last looked at.
    turned_at: Instant,
    pub(crate) drain_until: Option<Instant>,
    end: Option<End>,
    has_ended: bool,
}

/// What the server was told.
#[derive(Clone, Debug)]
pub(crate) struct StatusUpdates {
    sent: Lsn,
    sent_at: Instant,
    /// The server wants to be told soon.
    pub(crate) asked: bool,
}

impl Core {
    /// A session that begins now: parked, and with a pass.
    pub fn new(config: Config, start: Start, now: Instant) -> Self {
        let mut resync = Resync::new(now);
        if let Some(snapshot) = &start.passed_over {
            resync.passed_over(snapshot, start.confirmed);
        }
        Self {
            dispatch: Dispatch::new(config.limits, config.policy, start.seed),
            settling: Settling::new(Batching { max: config.settle_batch, interval: config.settle_interval }),
            progress: Progress::new(start.confirmed),
            resync,
            abandoned: Awaited::default(),
            deferred: Deferred::new(now),
            link: Link::new(start.broker_is_ready, now),
            turns: Turns::new(start.careful, now + config.check_interval, now),
            parking: Parking::new(now),
            status: StatusUpdates { sent: Lsn(0), sent_at: now, asked: false },
            reports: VecDeque::new(),
            turned_at: now,
            drain_until: None,
            end: None,
            has_ended: false,
            config,
        }
    }

    /// Takes in what has happened.
    pub fn on(&mut self, input: Input<'_>, now: Now) {
        match input {
            Input::Stream(streamed) => self.streamed(streamed, now.instant),
            Input::Sink(notice) => self.noticed(notice, now),
            Input::Table(finished) => self.finished(finished, now.instant),
            Input::Drain => self.drain(now.instant),
        }
    }

    /// What is to be done next; `None` until something happens, or time passes.
    pub fn next(&mut self, now: Now) -> Option<Effect> {
        if self.has_ended {
            return None;
        }
        if let Some(report) = self.reports.pop_front() {
            return Some(Effect::Report(report));
        }
        if let Some(end) = self.ends(now.instant) {
            self.has_ended = true;
            return Some(Effect::End(end));
        }
        self.park_if_stuck(now.instant);
        if let Some(report) = self.reports.pop_front() {
            return Some(Effect::Report(report));
        }
        self.publish(now).or_else(|| self.start_operation(now.instant)).or_else(|| self.acknowledge(now.instant))
    }

    /// Whether the stream is to be read now; TCP holds it back otherwise.
    pub fn reads_stream(&self, now: Instant) -> bool {
        let is_draining = self.drain_until.is_some() && !faults::is_on(Fault::DrainTakesMore);
        if self.has_ended || is_draining || self.turns.runs_whole_pass() || self.is_pass_next(now) {
            return false;
        }
        if self.turns.looks_at_publication || self.resync.holds_stream() && self.can_scan(now) {
            return false;
        }
        !self.resync.is_live() || self.dispatch.has_room()
    }

    /// When [`next`](Self::next) may have something although nothing happens.
    pub fn wake_at(&self, now: Instant) -> Instant {
        let has_advanced = self.acknowledged() > self.status.sent;
        let status_pause = if has_advanced { STATUS_PAUSE } else { self.config.status_interval };
        let timers = [
            Some(self.status.sent_at + status_pause),
            self.settling.due(),
            self.settling.next_look(),
            self.resync.next_timer(),
            self.deferred.next_timer(),
            self.dispatch.next_round(),
            self.look_up_at(),
            self.drain_until,
        ];
        let timers = timers.into_iter().chain(self.turns.timers()).chain(self.parking_timers());
        // A time that has passed waits for something else than time.
        timers.flatten().filter(|at| *at > now).min().unwrap_or(now + self.config.status_interval)
    }

    /// The position that may be acknowledged: up to there everything has its verdict, or stands in the table for all to see.
    pub fn acknowledged(&self) -> Lsn {
        self.holds_at().map_or(self.progress.flushed(), |at| self.progress.flushed().min(at).max(self.status.sent))
    }

    /// Whether events come from the stream; otherwise they are left to the table.
    pub fn is_live(&self) -> bool {
        self.resync.is_live()
    }

    /// Whether the event is in memory.
    pub fn knows(&self, id: &Uuid) -> bool {
        self.dispatch.knows(id)
    }

    /// Events in memory.
    pub fn in_memory(&self) -> usize {
        self.dispatch.len()
    }

    /// Events that were handed to the broker and whose verdicts are not written: what a crash now would repeat, at most.
    pub fn unsettled(&self) -> usize {
        self.dispatch.unsettled()
    }

    /// Verdicts that cannot be written now, for a lock, or a trigger that refuses them.
    pub fn unwritten(&self) -> usize {
        self.settling.unwritten()
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.reports.push_back(report);
    }

    pub(crate) fn end(&mut self, end: End) {
        self.end.get_or_insert(end);
    }

    fn publish(&mut self, now: Now) -> Option<Effect> {
        let is_draining = self.drain_until.is_some() && !faults::is_on(Fault::DrainTakesMore);
        if !self.link.is_ready() || is_draining {
            return None;
        }
        let batch = self.dispatch.next_batch(self.may_publish(), now);
        self.leave_behind();
        if faults::is_on(Fault::SettleBeforeConfirm) {
            let delivered = batch.iter().map(|event| Answer { id: event.id, outcome: Outcome::Delivered });
            self.answered(delivered.collect(), now);
        }
        (!batch.is_empty()).then_some(Effect::Publish(batch))
    }

    /// How many events may be handed to the broker now. Those whose verdicts wait to be written count as well, beyond
    /// one batch on its way and one filling: a crash repeats no more than these bounds, and what cannot be written.
    fn may_publish(&self) -> usize {
        let unconfirmed = self.config.in_flight.saturating_sub(self.dispatch.in_flight());
        if faults::is_on(Fault::UnsettledUnbounded) {
            return unconfirmed;
        }
        let bound = self.config.in_flight + 2 * self.config.settle_batch + self.settling.unwritten();
        unconfirmed.min(bound.saturating_sub(self.dispatch.unsettled()))
    }

    fn start_operation(&mut self, now: Instant) -> Option<Effect> {
        let request = self.next_request(now);
        self.leave_behind();
        request.map(Effect::Table)
    }

    /// Tells the server how far everything is settled: regularly, when it asks, and soon after an advance.
    fn acknowledge(&mut self, now: Instant) -> Option<Effect> {
        let since = now.duration_since(self.status.sent_at);
        let position = self.acknowledged();
        let has_advanced = position > self.status.sent;
        let is_due = since >= self.config.status_interval || has_advanced && since >= STATUS_PAUSE;
        (self.status.asked || is_due).then(|| {
            self.status = StatusUpdates { sent: position, sent_at: now, asked: false };
            Effect::Acknowledge(position)
        })
    }

    /// What had to leave memory is found in the table again.
    fn leave_behind(&mut self) {
        for left in self.dispatch.take_left_behind() {
            self.resync.left_behind(left.origin);
            if let Some(ticket) = left.ticket {
                self.progress.settled(ticket);
            }
        }
    }

    /// The first commit of which something was left to the table, and that cannot be seen yet.
    pub(crate) fn holds_at(&self) -> Option<Lsn> {
        [self.resync.holds_at(), self.deferred.holds_at(), self.abandoned.holds_at()].into_iter().flatten().min()
    }

    /// These transactions can be seen.
    pub(crate) fn seen(&mut self, snapshot: &Snapshot) {
        self.resync.seen(snapshot);
        self.deferred.seen(snapshot);
        self.abandoned.seen(snapshot);
    }

    fn drain(&mut self, now: Instant) {
        if self.drain_until.is_none() {
            self.drain_until = Some(now + self.config.drain_timeout);
            self.report(Report::Draining { in_flight: self.dispatch.in_flight() });
        }
    }

    /// Whether the session is over, and how it ends.
    fn ends(&mut self, now: Instant) -> Option<End> {
        let pause = now.duration_since(self.turned_at);
        self.turned_at = now;
        if pause >= self.config.stands_still_after && !faults::is_on(Fault::FreezeUnnoticed) {
            return Some(End::StoodStill(pause));
        }
        if let Some(end) = self.end.take() {
            return Some(end);
        }
        let until = self.drain_until?;
        if self.dispatch.in_flight() == 0 && self.settling.is_done() && self.turns.is_idle() {
            Some(End::Drained)
        } else {
            (now >= until).then(|| End::DrainTimeout { unsettled: self.dispatch.len() })
        }
    }
}
