//! How many events have been emitted so far, for one who publishes a message for each.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Counts events as they are committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Emitted(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    so_far: Mutex<SoFar>,
    more: Condvar,
}

/// What is known at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SoFar {
    pub(crate) events: u64,
    /// There will not be more.
    pub(crate) is_all: bool,
}

impl Emitted {
    /// So many, from the start.
    pub(crate) fn all(events: u64) -> Self {
        let all = Self::default();
        all.add(events);
        all.end();
        all
    }

    /// Returns how many there were before.
    pub(crate) fn add(&self, events: u64) -> u64 {
        let mut before = 0;
        self.change(|so_far| {
            before = so_far.events;
            so_far.events += events;
        });
        before
    }

    pub(crate) fn end(&self) {
        self.change(|so_far| so_far.is_all = true);
    }

    pub(crate) fn so_far(&self) -> SoFar {
        *self.0.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until there are more than so many, or there will not be.
    pub(crate) fn wait_for_more_than(&self, events: u64) {
        let so_far = self.0.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        let is_less = |so_far: &mut SoFar| so_far.events <= events && !so_far.is_all;
        drop(self.0.more.wait_while(so_far, is_less).unwrap_or_else(PoisonError::into_inner));
    }

    fn change(&self, change: impl FnOnce(&mut SoFar)) {
        change(&mut self.0.so_far.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.more.notify_all();
    }
}
