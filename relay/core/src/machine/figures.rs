//! What the session has counted, holds and does, for metrics.

use crate::{interface::Figures, machine::Core};

impl Core {
    /// What the session has counted, holds and does.
    pub fn figures(&self) -> Figures {
        Figures {
            counts: self.tally.counts,
            is_live: self.resync.is_live(),
            is_draining: self.drain_until.is_some(),
            refusing_since: self.refusing_since(),
            away_since: self.link.away_since(),
            is_blocked: self.link.is_blocked(),
            in_memory: self.dispatch.len(),
            memory_bytes: self.dispatch.budget.bytes(),
            in_flight: self.dispatch.in_flight(),
            unwritten: self.settling.held_up(),
            keys_in_table: self.dispatch.keys.spilled_count(),
            read_to: self.tally.read_to,
            acknowledged: self.acknowledged(),
        }
    }
}
