//! How many events have been emitted so far, for a client that publishes a message for each.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Counts events as they are committed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Emitted(Arc<(Mutex<SoFar>, Condvar)>);

/// What is known at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SoFar {
    pub(crate) events: u64,
    /// There will not be more.
    pub(crate) is_all: bool,
}

impl Emitted {
    /// All of a known number.
    pub(crate) fn all(events: u64) -> Self {
        Self(Arc::new((Mutex::new(SoFar { events, is_all: true }), Condvar::new())))
    }

    /// Returns how many there were before.
    pub(crate) fn add(&self, events: u64) -> u64 {
        self.change(|so_far| so_far.events += events).events
    }

    pub(crate) fn end(&self) {
        self.change(|so_far| so_far.is_all = true);
    }

    pub(crate) fn so_far(&self) -> SoFar {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until there are more than `events`, or there will not be.
    pub(crate) fn wait_for_more_than(&self, events: u64) {
        let so_far = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_less = |so_far: &mut SoFar| so_far.events <= events && !so_far.is_all;
        drop(self.0.1.wait_while(so_far, is_less).unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns what was before.
    fn change(&self, change: impl FnOnce(&mut SoFar)) -> SoFar {
        let mut so_far = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *so_far;
        change(&mut so_far);
        self.0.1.notify_all();
        before
    }
}
