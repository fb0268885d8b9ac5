//! How long memory has been full, or half full because of `max_rate`.

use std::time::{Duration, Instant};

/// Since when each condition has held.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    /// When an event last left memory.
    moved_at: Instant,
    /// Since when memory has had no room; `None`: it has room.
    full_since: Option<Instant>,
    /// Since when events that wait for `max_rate` have taken half of memory; `None`: they take less.
    paced_since: Option<Instant>,
}

crate::marked!(Congestion { moved_at, full_since, paced_since });

impl Congestion {
    pub(crate) fn new(now: Instant) -> Self {
        Self { moved_at: now, full_since: None, paced_since: None }
    }

    /// An event has left memory.
    pub(crate) fn moved(&mut self, now: Instant) {
        self.moved_at = now;
    }

    /// Whether memory has been full for `patience`, and nothing has left it meanwhile.
    pub(crate) fn is_full_for(&mut self, patience: Duration, is_full: bool, now: Instant) -> bool {
        self.full_since = is_full.then(|| self.full_since.unwrap_or(now));
        self.stuck_since().is_some_and(|since| now.duration_since(since) >= patience)
    }

    /// Whether more has been emitted for `patience` than `max_rate` lets leave.
    pub(crate) fn is_paced_for(&mut self, patience: Duration, is_paced: bool, now: Instant) -> bool {
        self.paced_since = is_paced.then(|| self.paced_since.unwrap_or(now));
        self.paced_since.is_some_and(|since| now.duration_since(since) >= patience)
    }

    /// Since when memory has been full without an event leaving; `None`: it has room.
    pub(crate) fn stuck_since(&self) -> Option<Instant> {
        self.full_since.map(|since| since.max(self.moved_at))
    }
}
