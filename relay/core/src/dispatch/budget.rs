//! How much may be in memory at a time.

use crate::{
    config::Limits,
    faults::{self, Fault},
};

#[derive(Clone, Debug)]
pub(super) struct Budget {
    limits: Limits,
    events: usize,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, events: 0, bytes: 0 }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn has_room(&self) -> bool {
        let (events, bytes) = self.room();
        events > 0 && bytes > 0
    }

    /// Events and bytes that may still be taken.
    pub(super) fn room(&self) -> (usize, usize) {
        (self.limits.max_events.saturating_sub(self.events), self.limits.max_bytes.saturating_sub(self.bytes))
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
