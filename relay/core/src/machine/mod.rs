//! The state machine as a whole: what comes next, and when to wake. Each file takes in one kind of input, or decides on
//! one kind of effect.
//!
//! | file | input it takes in | effect it decides on |
//! |---|---|---|
//! | `stream` | `Stream`, `StreamStarted` | |
//! | `table` | `Table`: what was read or written | |
//! | `sink` | `Sink`: outcomes, connections | `ConnectAnew` |
//! | `slot` | `Slot` | `LookAtSlot` |
//! | `drain` | `Drain` | `End` |
//! | `publish` | | `ReadBack`, `Publish` |
//! | `requests` | | `Table`: the next operation |
//! | `status` | | `Acknowledge` |
//! | `parking` | | `Report(Parked)`: when to leave events to the table |
//! | `figures` | | counts and conditions, when asked |

mod drain;
mod figures;
mod parking;
mod publish;
mod requests;
mod sink;
mod slot;
mod status;
mod stream;
mod table;

use std::{collections::VecDeque, time::Instant};

use uuid::Uuid;

use crate::{
    dispatch::Dispatch,
    interface::{Config, Effect, Input, Now, Report, Snapshot, Start},
    parts::{
        Batching, Congestion, Deferred, Ending, Link, NotYetVisible, Pace, Progress, Publication, ReadBack, Resync,
        Settling, SlotWatch, StatusUpdates, Stream, TableOperations, Tally,
    },
};

/// A relay's session, as far as it is decided.
///
/// After each [`on`](Self::on), call [`next`](Self::next) until it returns `None`, and once more at
/// [`wake_at`](Self::wake_at) if nothing happens before.
#[derive(Clone, Debug)]
pub struct Core {
    config: Config,
    dispatch: Dispatch,
    settling: Settling,
    progress: Progress,
    resync: Resync,
    /// Transactions whose events have waited in memory for so long that their commits no longer wait for the verdicts.
    long_unsettled: NotYetVisible,
    deferred: Deferred,
    link: Link,
    read_back: ReadBack,
    operations: TableOperations,
    publication: Publication,
    slot: SlotWatch,
    congestion: Congestion,
    pace: Pace,
    status: StatusUpdates,
    tally: Tally,
    reports: VecDeque<Report>,
    ending: Ending,
}

crate::marked!(Core {
    dispatch, settling, progress, resync, long_unsettled, deferred, link, read_back, operations, publication, slot, congestion,
    pace, status, ending
} not { config, tally, reports });

impl Core {
    /// A session that begins now, parked, with a pass.
    pub fn new(config: Config, start: Start, now: Instant) -> Self {
        let stream = if start.without_stream || start.is_unpublished { Stream::Missing } else { Stream::Started };
        let mut resync = Resync::new(stream, now);
        if let Some(snapshot) = &start.passed_over {
            resync.passed_over(snapshot, start.confirmed);
        }
        Self {
            dispatch: Dispatch::new(config.limits, config.policy, config.silent_after, start.abilities, start.seed),
            settling: Settling::new(Batching { max: config.settle_batch, interval: config.settle_interval }),
            progress: Progress::new(start.confirmed),
            resync,
            long_unsettled: NotYetVisible::default(),
            deferred: Deferred::new(now),
            link: Link::new(start.broker_away_since),
            read_back: ReadBack::new(&start, config.confirm_timeout, now),
            operations: TableOperations::new(start.row_by_row, now + config.check_interval, now),
            publication: Publication::new(start.is_unpublished),
            slot: SlotWatch::new(config.max_slot_wal, now),
            congestion: Congestion::new(now),
            pace: Pace::new(config.max_rate, now),
            status: StatusUpdates::new(now),
            tally: Tally::default(),
            reports: VecDeque::new(),
            ending: Ending::default(),
            config,
        }
    }

    /// Takes in what has happened.
    pub fn on(&mut self, input: Input<'_>, now: Now) {
        match input {
            Input::Stream(streamed) => self.streamed(streamed, now.instant),
            Input::StreamStarted => self.stream_started(now.instant),
            Input::Sink(notice) => self.noticed(notice, now),
            Input::Table(finished) => self.finished(finished, now.instant),
            Input::Slot(size) => self.slot_looked_at(size, now.instant),
            Input::Drain => self.drain(now.instant),
        }
    }

    /// The next thing to do; `None` until something happens or time passes.
    pub fn next(&mut self, now: Now) -> Option<Effect> {
        if self.ending.has_ended() {
            return None;
        }
        if self.reports.is_empty() {
            if let Some(end) = self.ends(now) {
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
        self.read_back()
            .or_else(|| self.publish(now))
            .or_else(|| self.look_at_slot(now.instant))
            .or_else(|| self.start_operation(now))
            .or_else(|| self.acknowledge(now.instant))
    }

    /// Whether to read the stream now. While it is not read, TCP holds it back.
    pub fn reads_stream(&self, now: Instant) -> bool {
        if self.ending.has_ended()
            || self.takes_nothing_new()
            || self.operations.runs_whole_pass()
            || self.is_pass_next(now)
        {
            return false;
        }
        if self.publication.is_look_due() || self.resync.pauses_stream() && self.can_scan(now) {
            return false;
        }
        !self.resync.is_live() || self.dispatch.budget.has_room()
    }

    /// When to call [`next`](Self::next) again if nothing happens.
    pub fn wake_at(&self, now: Instant) -> Instant {
        let timers = [
            Some(self.next_status()),
            self.settling.due(),
            self.settling.next_look(),
            self.read_back.next_look(),
            self.resync.next_timer(),
            self.deferred.next_timer(),
            self.dispatch.availability.next_round(),
            self.dispatch.silences.next_look(),
            self.dispatch.suspects.next_timer(),
            self.dispatch.unanswered(now).1,
            self.look_up_at(),
            self.pace.next(now),
            self.operations.pause_ends(),
            Some(self.operations.next_check()),
            self.slot.next_look(),
            self.ending.timer(),
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

    /// Events that were handed to the broker and whose verdicts are not written: at most these are delivered twice
    /// after a crash.
    pub fn unsettled(&self) -> usize {
        self.dispatch.unsettled()
    }

    /// How many of the unsettled events are on side channels: at most one for each silent destination. `in_flight` does
    /// not limit them.
    pub fn on_side_channels(&self) -> usize {
        self.dispatch.on_side_channels()
    }

    /// Verdicts that cannot be written now: the row is locked or not yet visible, or the server refuses the change.
    pub fn unwritten(&self) -> usize {
        self.settling.unwritten()
    }

    /// Marks this state for a fingerprint. Counts and reports take no part in it.
    #[cfg(feature = "faults")]
    pub fn mark_state(&self, marks: &mut crate::Marks) {
        marks.first_ticket(self.progress.first_ticket());
        crate::Marked::mark(self, marks);
    }

    fn report(&mut self, report: Report) {
        self.reports.push_back(report);
    }

    /// Forgets the transactions that the snapshot sees, wherever they were waited for.
    fn seen(&mut self, snapshot: &Snapshot) {
        self.resync.seen(snapshot);
        self.deferred.seen(snapshot);
        self.long_unsettled.seen(snapshot);
    }
}
