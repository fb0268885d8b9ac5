//! The slot's side of a session: looks at what it keeps, and the promise that a slot over its limit is dropped, in time
//! and not in haste.

use outbox_core::{Input, SlotSize};

use crate::{agenda::What, checker::Promise, database::Micros, world::World};

/// A slot that each look during this time has found over its limit is dropped.
const PATIENCE: Micros = 20_000_000;
/// Longest time until it is dropped: `PATIENCE`, two looks, and what runs on the table meanwhile.
const DROPS_WITHIN: Micros = PATIENCE + 15_000_000;

/// What the looks of a session have found.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    /// Since when each look has found the slot over its limit; `None`: the last one has not.
    over_since: Option<Micros>,
    /// Whether another slot kept more at the last look.
    other_keeps_more: bool,
    /// Since when the slot must be dropped; `None`: it need not be.
    must_go_since: Option<Micros>,
}

impl World {
    /// The look reaches the server.
    pub(crate) fn look_at_slot(&mut self, relay: usize, id: u64) {
        let way = self.way();
        if self.db.is_up && self.session(relay, id).is_some() {
            let size = self.db.slot_size().filter(|_| self.db.statements_fail_until <= self.now);
            self.later(way, What::SlotSeen(relay, id, size));
        }
    }

    /// The look's result reaches the relay.
    pub(crate) fn slot_seen(&mut self, relay: usize, id: u64, size: Option<SlotSize>) {
        let (now, clocks, max) = (self.now, self.clocks(), self.knobs.config.max_slot_wal);
        let Some(session) = self.session(relay, id) else { return };
        if let Some(size) = size {
            let looks = &mut session.slot;
            let is_over = max.is_some_and(|max| size.kept > max);
            looks.over_since = is_over.then(|| looks.over_since.unwrap_or(now));
            looks.other_keeps_more = size.kept_by_other > size.kept;
            let must_go = is_over && !looks.other_keeps_more;
            looks.must_go_since = must_go.then(|| looks.must_go_since.unwrap_or(now));
        } else {
            session.slot.must_go_since = None;
        }
        session.core.on(Input::Slot(size), clocks);
        self.turn(relay);
    }

    /// A slot that must be dropped does not stay.
    pub(super) fn check_slot(&mut self, relay: usize) {
        let Some(session) = self.relays[relay].session.as_ref().filter(|session| !session.is_draining) else { return };
        let is_late = |since: Micros| since.max(self.relays[relay].frozen_until) + DROPS_WITHIN < self.now;
        if session.slot.must_go_since.is_some_and(is_late) && session.calm_since < u64::MAX {
            self.checker.fail(Promise::SlotLimit, None, "the slot has been over its limit for long, and stays");
        }
    }

    /// The core drops the slot.
    pub(super) fn check_drop(&mut self, relay: usize) {
        let Some(session) = &self.relays[relay].session else { return };
        let Looks { over_since, other_keeps_more, .. } = session.slot;
        if over_since.is_none_or(|since| self.now < since + PATIENCE) {
            self.checker.fail(Promise::SlotLimit, None, "the slot is dropped in haste");
        }
        if other_keeps_more {
            self.checker.fail(Promise::SlotLimit, None, "the slot is dropped, and another keeps more");
        }
    }
}
