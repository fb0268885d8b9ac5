//! Until when the next session must read back as far as this one does.
//!
//! Verdicts of a new session let the next one read from later on, although events of earlier sessions may still wait to
//! be handed over. So the last verdict before the session is kept in the table until they have their verdicts.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{
    faults::{self, Fault},
    interface::IdHash,
};

/// The last verdict before the session, and how long it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    /// In microseconds since the Unix epoch, of which 0 means that nothing tells; `None`: it need not be kept any more.
    last_settled_us: Option<i64>,
    /// Whether the table has it; `None`: it may have that of an earlier session.
    is_kept: Option<bool>,
    /// Events of earlier sessions are among the first that the table has: this many are still to be handed over before
    /// the others count.
    left: usize,
    /// Whether the table was read to its end.
    is_read: bool,
    /// The events that were in memory by then and have no verdict yet.
    waiting: Option<HashSet<Uuid, IdHash>>,
    /// When the rest is given up.
    until: Option<Instant>,
}

crate::marked!(Floor { last_settled_us, is_kept, is_read, waiting, until } not { left });

impl Floor {
    /// `first`: as many events are handed over before others count, unless the table has fewer.
    pub(crate) fn new(last_settled_us: Option<i64>, first: usize) -> Self {
        let last_settled_us = last_settled_us.filter(|_| !faults::is_on(Fault::FloorForgotten));
        Self { last_settled_us, is_kept: None, left: first, is_read: false, waiting: None, until: None }
    }

    /// What the table should have.
    pub(crate) fn wanted(&self) -> Option<i64> {
        self.last_settled_us
    }

    /// Whether the table has something else.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_kept != Some(self.last_settled_us.is_some())
    }

    /// The table has it.
    pub(crate) fn kept(&mut self, last_settled_us: Option<i64>) {
        self.is_kept = Some(last_settled_us.is_some());
    }

    /// Events are handed over.
    pub(crate) fn handed_over(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }

    /// The table was read to its end.
    pub(crate) fn read_all(&mut self) {
        self.is_read = true;
    }

    /// Takes note of the events in memory, if it is the time for that.
    pub(crate) fn look(&mut self, in_memory: impl FnOnce() -> HashSet<Uuid, IdHash>, patience: Duration, now: Instant) {
        if self.last_settled_us.is_none() {
            return;
        }
        if self.waiting.is_none() && (self.is_read || self.left == 0) {
            self.waiting = Some(in_memory());
            self.until = Some(now + patience);
        }
        let is_through = self.waiting.as_ref().is_some_and(HashSet::is_empty);
        if is_through || self.until.is_some_and(|until| until <= now) {
            (self.last_settled_us, self.waiting, self.until) = (None, None, None);
        }
    }

    /// The event's verdict is in the table.
    pub(crate) fn settled(&mut self, id: &Uuid) {
        if let Some(waiting) = &mut self.waiting {
            waiting.remove(id);
        }
    }
}
