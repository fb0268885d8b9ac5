//! Logs what keeps the slot from moving on, before the slot reaches a limit, and that the slot is dropped.

use std::time::Instant;

use outbox_core::{Figures, Pressure, SlotSize};
use tracing::{info, warn};

use super::slot_blocker::{Oldest, SlotBlocker, limits};
use crate::{
    numbers,
    repeats::Reminder,
    store::{Blocker, SlotLook},
};

/// The result of the last look at the slot, and what was logged.
pub(super) struct SlotLog {
    slot: String,
    /// Most bytes of the WAL that the slot may keep.
    max: Option<u64>,
    oldest: Oldest,
    blocked_by: String,
    /// The other slot of the server that keeps most, and how many bytes.
    other: Option<(String, i64)>,
    pressure_reminder: Reminder,
    making_reminder: Reminder,
    other_reminder: Reminder,
    /// The transaction that the creation of the slot waits for, as a sentence.
    waits_for: Option<String>,
}

impl SlotLog {
    pub(super) fn new(slot: String, max: Option<u64>) -> Self {
        Self {
            slot,
            max,
            oldest: Oldest::default(),
            blocked_by: String::new(),
            other: None,
            pressure_reminder: Reminder::default(),
            making_reminder: Reminder::default(),
            other_reminder: Reminder::default(),
            waits_for: None,
        }
    }

    /// The transaction that the creation of the slot waits for, as a sentence.
    pub(super) fn waits_for(&self) -> Option<&str> {
        self.waits_for.as_deref()
    }

    /// Takes in the result of a look and logs it, if it is worth a line. Returns the part that the core needs.
    pub(super) fn looked(&mut self, mut look: SlotLook, figures: &Figures, now: Instant) -> SlotSize {
        self.oldest.seen(look.writer.as_mut(), now);
        let size = look.size();
        let blocker = SlotBlocker::of(&look, figures);
        self.making(&look, now);
        if look.asked_who || size.pressure(self.max) == Pressure::Little {
            self.pressure(size.pressure(self.max), &look, &blocker, now);
        }
        (self.blocked_by, self.other) = (blocker.to_string(), look.other);
        size
    }

    /// Logs that the slot is about to be dropped, because it keeps `kept` bytes.
    pub(super) fn over_limit(&self, kept: u64) {
        let (slot, kept) = (&self.slot, bytes(kept));
        let max_slot_wal = bytes(self.max.unwrap_or_default());
        warn!(target: "relay", slot, kept, max_slot_wal, held_by = self.blocked_by,
              "the slot keeps more than max_slot_wal: dropping it, and creating it again; events are read from the table");
    }

    /// Logs that the slot keeps `kept` bytes, and stays because another slot keeps more.
    pub(super) fn other_keeps_more(&mut self, kept: u64, now: Instant) {
        let Some((other, others)) = &self.other else { return };
        if self.other_reminder.is_due(other, 0, now) {
            let (slot, kept, keeps) = (&self.slot, bytes(kept), numbers::bytes(*others));
            warn!(target: "relay", slot, kept, other, keeps,
                  "the slot keeps more than max_slot_wal, but another slot keeps still more: dropping it would free nothing");
        }
    }

    fn making(&mut self, look: &SlotLook, now: Instant) {
        let waits_for = look.writer.as_ref().filter(|_| look.unconfirmed.is_none());
        self.waits_for = waits_for.map(|writer| format!("{}: {}", Blocker::OF_SLOT, writer.who));
        if let Some(writer) = waits_for
            && self.making_reminder.is_due(&writer.who.to_string(), 0, now)
        {
            writer.who.log(Blocker::OF_SLOT);
        }
    }

    fn pressure(&mut self, pressure: Pressure, look: &SlotLook, blocker: &SlotBlocker, now: Instant) {
        let kept = numbers::bytes(look.kept);
        if pressure == Pressure::Little {
            if self.pressure_reminder.is_over() {
                info!(target: "relay", slot = self.slot, kept, "the slot keeps little of the WAL again");
            }
            return;
        }
        // A slot that moves on by itself is logged only if it is about to be lost.
        if *blocker == SlotBlocker::Nobody && pressure < Pressure::NearlyLost {
            return;
        }
        let who = match blocker {
            SlotBlocker::Transaction(who) | SlotBlocker::Lock(who) => who.to_string(),
            other => other.to_string(),
        };
        if !self.pressure_reminder.is_due(&who, pressure as u8, now) {
            return;
        }
        let (slot, limit) = (&self.slot, limits(look, self.max));
        if pressure == Pressure::NearlyLost {
            warn!(target: "relay", slot, kept, limit, held_by = %blocker, "the slot is about to be lost");
        } else {
            warn!(target: "relay", slot, kept, limit, held_by = %blocker, "the slot keeps much of the WAL");
        }
    }
}

fn bytes(count: u64) -> String {
    numbers::bytes(count.try_into().unwrap_or(i64::MAX))
}
