//! The state machine as a whole: what comes next, and when to be woken.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use uuid::Uuid;

mod figures;
mod operations;
mod parking;
mod sink;
mod status;
mod stream;
mod table;

use crate::{
    dispatch::{Dispatch, Parted},
    faults::{self, Fault},
    interface::{Answer, Config, Effect, End, Input, Now, Outcome, Report, Snapshot, Start},
    machine::operations::Turns,
    machine::parking::Parking,
    machine::sink::Link,
    machine::status::StatusUpdates,
    parts::{Awaited, Batching, Deferred, Pace, Progress, Resync, Settling, Stream, Tally},
};

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
    pub(crate) pace: Pace,
    pub(crate) status: StatusUpdates,
    pub(crate) tally: Tally,
    reports: VecDeque<Report>,
    /// When the time was last looked at; `None`: not yet.
    turned_at: Option<Now>,
    pub(crate) drain_until: Option<Instant>,
    /// How the session ends when what is in flight is finished; `None`: it is told to stop.
    drained: Option<End>,
    /// The stream brings nothing.
    pub(crate) is_unpublished: bool,
    end: Option<End>,
    has_ended: bool,
}

impl Core {
    /// A session that begins now: parked, and with a pass.
    pub fn new(config: Config, start: Start, now: Instant) -> Self {
        let stream = if start.without_stream || start.is_unpublished { Stream::Missing } else { Stream::Started };
        let mut resync = Resync::new(stream, now);
        if let Some(snapshot) = &start.passed_over {
            resync.passed_over(snapshot, start.confirmed);
        }
        Self {
            dispatch: Dispatch::new(config.limits, config.policy, config.silent_after, start.seed),
            settling: Settling::new(Batching { max: config.settle_batch, interval: config.settle_interval }),
            progress: Progress::new(start.confirmed),
            resync,
            abandoned: Awaited::default(),
            deferred: Deferred::new(now),
            link: Link::new(start.broker_away_since),
            turns: Turns::new(start.careful, now + config.check_interval, now),
            parking: Parking::new(now),
            pace: Pace::new(config.max_rate, now),
            status: StatusUpdates::new(now),
            tally: Tally::default(),
            reports: VecDeque::new(),
            turned_at: None,
            drain_until: None,
            drained: None,
            is_unpublished: start.is_unpublished,
            end: None,
            has_ended: false,
            config,
        }
    }

    /// Takes in what has happened.
    pub fn on(&mut self, input: Input<'_>, now: Now) {
        match input {
            Input::Stream(streamed) => self.streamed(streamed, now.instant),
            Input::StreamStarted if self.is_unpublished => {}
            Input::StreamStarted => self.resync.stream_started(self.turns.runs_whole_pass(), now.instant),
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
        if self.reports.is_empty() {
            if let Some(end) = self.ends(now) {
                self.has_ended = true;
                return Some(Effect::End(end));
            }
            self.park_if_stuck(now.instant);
        }
        if let Some(report) = self.reports.pop_front() {
            return Some(Effect::Report(report));
        }
        if let Some(connect) = self.connect_anew(now.instant) {
            return Some(connect);
        }
        self.publish(now).or_else(|| self.start_operation(now.instant)).or_else(|| self.acknowledge(now.instant))
    }

    /// Whether the stream is to be read now; TCP holds it back otherwise.
    pub fn reads_stream(&self, now: Instant) -> bool {
        if self.has_ended || self.takes_nothing_new() || self.turns.runs_whole_pass() || self.is_pass_next(now) {
            return false;
        }
        if self.turns.looks_at_publication || self.resync.holds_stream() && self.can_scan(now) {
            return false;
        }
        !self.resync.is_live() || self.dispatch.budget.has_room()
    }

    /// When [`next`](Self::next) may have something although nothing happens.
    pub fn wake_at(&self, now: Instant) -> Instant {
        let timers = [
            Some(self.next_status()),
            self.settling.due(),
            self.settling.next_look(),
            self.resync.next_timer(),
            self.deferred.next_timer(),
            self.dispatch.refusals.next_round(),
            self.dispatch.silences.next_look(),
            self.dispatch.suspects.next_timer(),
            self.dispatch.awaited(now).1,
            self.look_up_at(),
            self.pace.next(now),
            self.turns.scan_pause,
            Some(self.turns.check_at),
            self.drain_until,
        ];
        let timers = timers.into_iter().chain(self.parking_timers());
        // A deadline that has passed waits for something other than time.
        timers.flatten().filter(|at| *at > now).min().unwrap_or(now + self.config.status_interval)
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

    /// How many of the unsettled events are on side channels: at most one for each silent destination.
    /// `in_flight` does not bound them.
    pub fn beside(&self) -> usize {
        self.dispatch.beside()
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
        if !self.link.is_ready() || self.takes_nothing_new() {
            return None;
        }
        let (batch, beside) = loop {
            let max = if faults::is_on(Fault::RateIgnored) {
                self.may_publish()
            } else {
                self.pace.allows(self.may_publish().min(self.dispatch.ready()), now.instant)
            };
            let batch = self.dispatch.next_batch(max, now);
            let Parted { beside, verdicts } = self.dispatch.take_parted();
            let only_put_off = batch.is_empty() && beside.is_empty() && !verdicts.is_empty();
            for verdict in verdicts {
                self.settling.push(verdict, now.instant);
            }
            if !only_put_off {
                break (batch, beside); // else what comes behind may leave
            }
        };
        self.pace.left(batch.len() + beside.len(), now.instant);
        self.leave_behind();
        if faults::is_on(Fault::SettleBeforeConfirm) {
            let delivered = batch.iter().map(|event| Answer { id: event.id, outcome: Outcome::Delivered });
            self.answered(delivered.collect(), now);
        }
        self.tally.counts.published += (batch.len() + beside.len()) as u64;
        (!batch.is_empty() || !beside.is_empty()).then_some(Effect::Publish { batch, beside })
    }

    /// How many events may be handed to the broker now. Those whose verdicts wait to be written count as well, beyond
    /// one batch on its way and one filling: a crash repeats no more than these bounds, and what cannot be written.
    pub(crate) fn may_publish(&self) -> usize {
        let unconfirmed = self.config.in_flight.saturating_sub(self.dispatch.on_main_channel());
        if faults::is_on(Fault::UnsettledUnbounded) {
            return unconfirmed;
        }
        let bound =
            self.config.in_flight + 2 * self.config.settle_batch + self.settling.unwritten() + self.dispatch.beside();
        unconfirmed.min(bound.saturating_sub(self.dispatch.unsettled()))
    }

    fn start_operation(&mut self, now: Instant) -> Option<Effect> {
        let request = self.next_request(now);
        self.leave_behind();
        request.map(Effect::Table)
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

    /// These transactions can be seen.
    pub(crate) fn seen(&mut self, snapshot: &Snapshot) {
        self.resync.seen(snapshot);
        self.deferred.awaited.seen(snapshot);
        self.abandoned.seen(snapshot);
    }

    /// Ends the session once what is in flight is finished.
    pub(crate) fn finish(&mut self, end: End, now: Instant) {
        if self.drain_until.is_none() {
            self.drain_until = Some(now + self.config.drain_timeout);
            self.drained = Some(end);
        }
    }

    fn drain(&mut self, now: Instant) {
        self.drained = None;
        if self.drain_until.is_none() {
            self.drain_until = Some(now + self.config.drain_timeout);
            self.report(Report::Draining { in_flight: self.dispatch.in_flight() });
        }
    }

    fn takes_nothing_new(&self) -> bool {
        self.drain_until.is_some() && !faults::is_on(Fault::DrainTakesMore)
    }

    /// Whether the session is over, and how it ends.
    fn ends(&mut self, now: Now) -> Option<End> {
        let pause = self.turned_at.replace(now).map_or(Duration::ZERO, |turned_at| now.since(turned_at));
        if pause >= self.config.stands_still_after && !faults::is_on(Fault::FreezeUnnoticed) {
            return Some(End::StoodStill(pause));
        }
        if let Some(end) = self.end.take() {
            return Some(end);
        }
        let until = self.drain_until?;
        if self.dispatch.awaited(now.instant).0 == 0 && self.settling.is_done() && self.turns.is_idle() {
            Some(self.drained.take().unwrap_or(End::Drained))
        } else {
            let timeout = || End::DrainTimeout { unsettled: self.dispatch.unsettled() };
            (now.instant >= until).then(|| self.drained.clone().unwrap_or_else(timeout))
        }
    }
}
