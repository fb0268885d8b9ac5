//! The looks at the slot, and the end of the session when it is over its limit.

use std::time::Instant;

use super::Core;
use crate::{
    interface::{Effect, End, Report, SlotSize},
    parts::OverLimit,
};

impl Core {
    /// A look begins only while no operation runs on the table, so that its statement does not fall into another's
    /// transaction.
    pub(super) fn look_at_slot(&mut self, now: Instant) -> Option<Effect> {
        if !self.operations.is_idle() {
            return None;
        }
        let asks_who = self.slot.take_look(self.resync.is_without_stream(), now)?;
        Some(Effect::LookAtSlot { asks_who })
    }

    pub(super) fn slot_looked_at(&mut self, size: Option<SlotSize>, now: Instant) {
        let kept = size.map_or(0, |size| size.kept);
        match self.slot.looked(size, now) {
            None => {}
            Some(OverLimit::KeptByOther) => self.report(Report::OtherSlotKeepsMore { kept }),
            Some(OverLimit::Drop) if self.ending.is_draining() => {}
            Some(OverLimit::Drop) => {
                self.report(Report::SlotOverLimit { kept });
                self.finish(End::SlotOverLimit { kept }, now);
            }
        }
    }
}
