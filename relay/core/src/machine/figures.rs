//! What a session shows of itself, for metrics and the log.

use std::time::Instant;

use super::Core;
use crate::interface::{Conditions, Figures};

impl Core {
    /// The session's counts and state.
    pub fn figures(&self, now: Instant) -> Figures {
        Figures {
            counts: self.tally.counts(),
            is_live: self.resync.is_live(),
            is_draining: self.ending.is_draining(),
            unavailable_since: self.conditions(now).unavailable_since,
            away_since: self.link.away_since(),
            is_blocked: self.link.is_blocked(),
            in_memory: self.dispatch.len(),
            memory_bytes: self.dispatch.budget.bytes(),
            in_flight: self.dispatch.in_flight(),
            unwritten: self.settling.delayed(),
            keys_in_table: self.dispatch.keys.spilled_count(),
            read_to: self.tally.read(),
            acknowledged: self.acknowledged(),
        }
    }

    /// The conditions that have lasted for `park_after`.
    pub fn conditions(&self, now: Instant) -> Conditions {
        let lasting = |since: Option<Instant>| since.filter(|_| self.has_lasted(since, now));
        Conditions {
            is_live: self.resync.is_live(),
            away_since: lasting(self.link.away_since()),
            unavailable_since: lasting(self.dispatch.availability.since()),
            unavailable_destinations: self.dispatch.availability.unavailable_destinations(),
        }
    }
}
