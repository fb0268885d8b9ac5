//! The limit on events in memory, and on their bytes.

use crate::{
    faults::{self, Fault},
    interface::Limits,
};

#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limits: Limits,
    events: usize,
    bytes: usize,
}

crate::marked!(Budget { events, bytes } not { limits });

impl Budget {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, events: 0, bytes: 0 }
    }

    /// Whether another event may be admitted. The limit is soft: the event that crosses it is still admitted.
    pub(crate) fn has_room(&self) -> bool {
        let (events, bytes) = self.room();
        events > 0 && bytes > 0
    }

    /// Whether more than half of memory is taken, so that unavailable events must make room for others.
    pub(crate) fn is_crowded(&self) -> bool {
        let (events, bytes) = self.room();
        events < self.limits.max_events / 2 || bytes < self.limits.max_bytes / 2
    }

    /// How many events and bytes may still be admitted.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.limits.max_events.saturating_sub(self.events), self.limits.max_bytes.saturating_sub(self.bytes))
    }

    /// Bytes of the events in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn take(&mut self, bytes: usize) {
        self.events += 1;
        self.bytes += bytes;
    }

    pub(super) fn give_back_event(&mut self) {
        debug_assert!(self.events > 0, "more events given back than taken");
        self.events = self.events.saturating_sub(usize::from(!faults::is_on(Fault::BudgetLeaks)));
    }

    pub(super) fn give_back_bytes(&mut self, bytes: usize) {
        debug_assert!(self.bytes >= bytes, "more bytes given back than taken");
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
