//! Keys whose events wait in the table: what a scan must leave out, and when to read the table for them.

use std::cmp::Reverse;

use super::{Dispatch, Holding, KeyName};

impl Dispatch {
    /// Keys whose later events wait in the table.
    pub fn spilled_keys(&self) -> Vec<KeyName> {
        self.keys.spilled()
    }

    /// Keys whose later events wait in the table and shall go on waiting there: a scan leaves them out.
    pub fn full_keys(&self) -> Vec<KeyName> {
        self.keys.full()
    }

    /// Whether a key that spilled has worked off most of what it has in memory: time to read the table.
    pub fn wants_refill(&self) -> bool {
        self.keys.wants_refill()
    }

    /// A pass begins to read the table. What is in memory then, it leaves out: so nothing may stay there that later goes back
    /// to the table behind the pass's back, or leaves before an event that the pass brings.
    pub fn begin_pass(&mut self) {
        let ready = std::mem::take(&mut self.ready).into_vec();
        self.ready = ready.into_iter().filter(|Reverse((_, id))| !self.held_back(id)).collect();
        for (order, id) in std::mem::take(&mut self.set_aside) {
            if !self.held_back(&id) {
                self.set_aside.push((order, id));
            }
        }
        self.keys.begin_pass();
    }

    /// Learns which events in the table hold their keys.
    pub fn learn_holding(&mut self, holding: &[Holding]) {
        let slots = &self.slots;
        for waiting in self.keys.learn(holding, |id| slots.contains_key(id)) {
            self.leave_to_table(&waiting);
        }
    }

    /// A pass is about to offer, in order, every row of the keys that spilled, but for `still_full` which it left out:
    /// they may be admitted again.
    pub fn unspill(&mut self, still_full: &[KeyName]) {
        self.keys.unspill(still_full);
    }

    /// Whether more keys are known than memory has room for: a pass from the beginning sorts them out.
    pub fn knows_too_many_keys(&self) -> bool {
        self.keys.len() > 2 * self.budget.limits().max_events
    }
}
