//! When to look for events with a time of their own (`available_at`), which are deferred by their emitter or to be
//! tried again.
//!
//! Such events wait in the table however far their time lies ahead. They cost the relay one timer, for the earliest.

use std::time::{Duration, Instant};

use crate::{
    faults::{self, Fault},
    interface::{Due, Lsn, Snapshot},
    parts::{NotYetVisible, Origin},
};

/// Pause before another look when a transaction was not yet visible.
const WAIT_FOR_VISIBLE: Duration = Duration::from_millis(20);
/// Events that have waited longer than this for a pass are read again, since others may have changed them.
const LONGEST_WAIT_FOR_PASS: Duration = Duration::from_secs(5);
/// Least pause between two looks, so that events that come due in quick succession are read together.
const PAUSE: Duration = Duration::from_millis(5);

/// The timer, and the transactions with deferred events that it may not include yet.
#[derive(Clone, Debug)]
pub(crate) struct Deferred {
    look_at: Option<Instant>,
    not_yet_visible: NotYetVisible,
    /// Whether the look that was last asked for leaves nothing out: its events then leave after the next pass.
    reads_ahead: bool,
    /// Events that are due and leave only once a pass has read what may come before them, and when they were read.
    behind_pass: Option<(Due, Instant)>,
}

crate::marked!(Deferred { look_at, not_yet_visible, reads_ahead, behind_pass });

impl Deferred {
    /// The first look is due at once.
    pub(crate) fn new(now: Instant) -> Self {
        Self { look_at: Some(now), not_yet_visible: NotYetVisible::default(), reads_ahead: false, behind_pass: None }
    }

    /// The position up to which the WAL may be acknowledged at most; `None`: no limit.
    pub(crate) fn ack_limit(&self) -> Option<Lsn> {
        self.not_yet_visible.ack_limit()
    }

    /// Forgets the transactions that the snapshot sees.
    pub(crate) fn seen(&mut self, snapshot: &Snapshot) {
        self.not_yet_visible.seen(snapshot);
    }

    /// A look begins. `reads_ahead`: it leaves nothing out.
    pub(crate) fn looks(&mut self, reads_ahead: bool) {
        self.reads_ahead = reads_ahead;
    }

    /// Whether the last look left nothing out.
    pub(crate) fn reads_ahead(&self) -> bool {
        self.reads_ahead
    }

    /// The events that are due leave only once a pass has read what may come before them.
    pub(crate) fn wait_for_pass(&mut self, due: Due, now: Instant) {
        self.behind_pass = Some((due, now));
    }

    /// Whether events that are due wait for a pass.
    pub(crate) fn is_waiting_for_pass(&self) -> bool {
        self.behind_pass.is_some()
    }

    /// Asks for a look at `then` at the latest.
    pub(crate) fn look(&mut self, then: Instant) {
        if faults::is_on(Fault::TimerForgotten) {
            return;
        }
        self.look_at = Some(self.look_at.map_or(then, |at| at.min(then)));
    }

    /// The streamed transaction `origin` brought a deferred event.
    pub(crate) fn inserted(&mut self, origin: Option<Origin>, now: Instant) {
        if origin.is_some_and(|origin| self.not_yet_visible.insert(origin)) {
            self.look(now);
        }
    }

    /// A pass has ended: returns the events that waited for it. After a long wait it returns `None` and asks for
    /// another look, since others may have changed them.
    pub(crate) fn take_behind_pass(&mut self, now: Instant) -> Option<Due> {
        let (due, read_at) = self.behind_pass.take()?;
        if now.duration_since(read_at) < LONGEST_WAIT_FOR_PASS {
            return Some(due);
        }
        self.look(now);
        None
    }

    /// Whether a look is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.look_at.is_some_and(|at| at <= now)
    }

    /// When the next look is due; `None`: no event is known to have a time.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.look_at
    }

    /// A look has ended. `cut`: more events are due than it was allowed to read; `next_in`: time until the next event
    /// is due.
    pub(crate) fn looked(&mut self, snapshot: &Snapshot, cut: bool, next_in: Option<Duration>, now: Instant) {
        self.not_yet_visible.seen(snapshot);
        let again = (!self.not_yet_visible.is_empty()).then_some(WAIT_FOR_VISIBLE);
        let wait =
            if cut { Some(Duration::ZERO) } else { again.into_iter().chain(next_in).min().map(|wait| wait.max(PAUSE)) };
        self.look_at = wait.map(|wait| now + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Lsn;

    #[test]
    fn the_timer_is_set_for_the_earliest_event() {
        let now = Instant::now();
        let mut deferred = Deferred::new(now);
        let snapshot = "10:10:".parse().unwrap();
        assert!(deferred.is_due(now));
        deferred.looked(&snapshot, true, None, now);
        assert!(deferred.is_due(now), "there may be more");
        deferred.looked(&snapshot, false, Some(Duration::from_secs(60)), now);
        assert_eq!(deferred.next_timer(), Some(now + Duration::from_secs(60)));
        deferred.looked(&snapshot, false, None, now);
        assert_eq!(deferred.next_timer(), None);
    }

    #[test]
    fn an_event_that_is_not_visible_yet_is_looked_for_again() {
        let now = Instant::now();
        let mut deferred = Deferred::new(now);
        deferred.looked(&"10:10:".parse().unwrap(), false, None, now);
        deferred.inserted(Some(Origin { xid: 12, commit: Lsn(1) }), now);
        assert!(deferred.is_due(now));
        deferred.looked(&"12:12:".parse().unwrap(), false, Some(Duration::from_secs(60)), now);
        assert_eq!(deferred.next_timer(), Some(now + WAIT_FOR_VISIBLE));
        deferred.looked(&"13:13:".parse().unwrap(), false, Some(Duration::from_secs(60)), now);
        assert_eq!(deferred.next_timer(), Some(now + Duration::from_secs(60)));
    }
}
