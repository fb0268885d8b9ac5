//! Events that go back to the table, keys whose events wait there, and when to read the table for them.

use std::cmp::Reverse;

use uuid::Uuid;

use super::{Dispatch, LeftBehind};
use crate::{
    event::{KeyHolder, KeyName},
    faults::{self, Fault},
};

impl Dispatch {
    /// Keys whose later events wait in the table.
    pub(crate) fn spilled_keys(&self) -> Vec<KeyName> {
        self.keys.spilled()
    }

    /// Keys whose later events wait in the table and shall go on waiting there: a scan leaves them out.
    pub(crate) fn full_keys(&self) -> Vec<KeyName> {
        self.keys.full()
    }

    /// Whether a key that spilled has worked off most of what it has in memory: time to read the table.
    pub(crate) fn wants_refill(&self) -> bool {
        self.keys.wants_refill()
    }

    /// A pass begins to read the table. What is in memory then, it leaves out: so nothing may stay there that later goes back
    /// to the table behind the pass's back, or leaves before an event that the pass brings.
    pub(crate) fn begin_pass(&mut self) {
        if !faults::is_on(Fault::ReadyKeptInPass) {
            self.spill_held();
        }
        self.keys.begin_pass();
    }

    /// What is ready and held goes back to the table: once its key is not held any longer, it would leave before those that went
    /// back.
    pub(super) fn spill_held(&mut self) {
        let ready = std::mem::take(&mut self.ready).into_vec();
        self.ready = ready.into_iter().filter(|Reverse((_, id))| !self.spill_if_held(id)).collect();
        for (order, id) in std::mem::take(&mut self.set_aside) {
            if !self.spill_if_held(&id) {
                self.set_aside.push((order, id));
            }
        }
    }

    /// Learns which events in the table hold their keys.
    pub(crate) fn learn_holders(&mut self, holders: &[KeyHolder]) {
        let tracked = &self.tracked;
        for queued in self.keys.learn(holders, |id| tracked.contains_key(id)) {
            self.leave_to_table(&queued);
        }
    }

    /// A pass is about to offer, in order, every row of the keys that spilled, but for `still_full` which it left out:
    /// they may be admitted again.
    pub(crate) fn unspill(&mut self, still_full: &[KeyName]) {
        self.keys.unspill(still_full);
    }

    /// Whether more keys are known than memory has room for: a pass from the beginning sorts them out.
    pub(crate) fn knows_too_many_keys(&self) -> bool {
        self.keys.len() > 2 * self.budget.limits().max_events
    }

    /// Pipelined events can be ready when one before them is refused: they go back to the table.
    pub(super) fn spill_if_held(&mut self, id: &Uuid) -> bool {
        let key = self.tracked.get(id).filter(|tracked| !tracked.returning).and_then(|tracked| tracked.key);
        let is_spilled = key.is_some_and(|key| self.keys.spill_if_held(key));
        if is_spilled {
            self.leave_to_table(id);
        }
        is_spilled
    }

    pub(super) fn leave_to_table(&mut self, id: &Uuid) {
        if let Some(tracked) = self.tracked.remove(id) {
            self.budget.give_back_event();
            self.budget.give_back_bytes(tracked.event.map_or(0, |event| event.memory()));
            self.left_behind.push(LeftBehind { ticket: tracked.ticket, origin: tracked.origin });
        }
    }
}
