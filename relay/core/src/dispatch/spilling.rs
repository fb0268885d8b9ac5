//! Events that go back to the table, and the keys that they hold there.

use std::cmp::Reverse;

use uuid::Uuid;

use super::{Dispatch, LeftBehind};
use crate::{
    faults::{self, Fault},
    interface::KeyHolder,
};

impl Dispatch {
    /// A pass begins. It leaves out the events in memory, so no event may stay there that would go back to the table
    /// unseen by the pass, or leave before an earlier one that the pass brings.
    pub(crate) fn begin_pass(&mut self) {
        if !faults::is_on(Fault::ReadyKeptInPass) {
            self.spill_held();
        }
        self.keys.begin_pass();
    }

    /// Leaves ready events of held keys to the table. Once their keys are released, they would leave before the events
    /// that went back to the table.
    pub(super) fn spill_held(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|Reverse((_, id))| !self.spill_if_held(id));
        self.ready = ready;
        let waiting = [&mut self.set_aside, &mut self.suspects.resting, &mut self.behind].map(std::mem::take);
        let [set_aside, resting, behind] = waiting.map(|mut waiting| {
            waiting.retain(|(_, id)| !self.spill_if_held(id));
            waiting
        });
        (self.set_aside, self.suspects.resting, self.behind) = (set_aside, resting, behind);
    }

    /// Learns from a pass which events in the table hold their keys.
    pub(crate) fn learn_holders(&mut self, holders: &[KeyHolder]) {
        let tracked = &self.tracked;
        for queued in self.keys.learn(holders, |id| tracked.contains_key(id)) {
            self.leave_to_table(&queued);
        }
    }

    /// Leaves a ready event to the table if its key is held, as happens to pipelined events when an earlier one fails.
    /// Returns whether it did.
    pub(super) fn spill_if_held(&mut self, id: &Uuid) -> bool {
        let key = self.tracked.get(id).filter(|tracked| !tracked.is_holder).and_then(|tracked| tracked.key);
        let is_spilled = key.is_some_and(|key| self.keys.spill_if_held(key));
        if is_spilled {
            self.leave_to_table(id);
        }
        is_spilled
    }

    pub(super) fn leave_to_table(&mut self, id: &Uuid) {
        if let Some(tracked) = self.tracked.remove(id) {
            self.suspects.cleared(id, tracked.endings);
            self.budget.give_back_event();
            self.budget.give_back_bytes(tracked.event.map_or(0, |event| event.memory()));
            self.left_behind.push(LeftBehind { ticket: tracked.ticket, origin: tracked.origin });
        }
    }
}
