//! Watches what the slot keeps of the log: tells people in time who holds it back, and lets the slot go before it fills the disk, if it
//! may.
//!
//! A slot is created again in no time, and what it would have brought stands in the table. The disk is everybody's.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use outbox_core::Figures;
use tracing::{debug, info, warn};

use super::pressure::{Holder, Oldest, Pressure, limits};
use crate::{
    error::chain,
    numbers,
    repeats::Reminder,
    store::{Blocker, SlotLook, Store, StoreError},
};

/// How often the slot is looked at: one row of a view.
const INTERVAL: Duration = Duration::from_secs(5);
/// A slot that has kept more than it may for so long, without a break, is let go. Longer than the 15 s in which PostgreSQL moves on
/// one that nobody holds, so that a server that writes much does not cost a slot each time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Above this the guard looks who holds the slot back, so that it knows for how long once that matters. One WAL segment.
const WORTH_A_NAME: i64 = 16 << 20;

type Look = Pin<Box<dyn Future<Output = Result<Option<SlotLook>, StoreError>> + Send>>;

/// What a session asks of the guard.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// The slot's name.
    pub(crate) slot: String,
    /// Most bytes of the WAL that the slot may keep.
    pub(crate) max: Option<u64>,
}

pub(super) struct Guard {
    slot: String,
    max: Option<i64>,
    look: Option<Look>,
    look_at: Instant,
    /// What the last look has shown.
    kept: i64,
    pressure: Pressure,
    over_since: Option<Instant>,
    oldest: Oldest,
    told: Reminder,
    told_making: Reminder,
    told_other: Reminder,
    /// Whom the slot, while it is being made, waits for.
    waits_for: Option<String>,
}

/// The slot keeps more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch {
    /// Bytes.
    pub(super) kept: i64,
}

impl Guard {
    pub(super) fn new(Policy { slot, max }: Policy, now: Instant) -> Self {
        Self {
            slot,
            max: max.map(|max| i64::try_from(max).unwrap_or(i64::MAX)),
            look: None,
            look_at: now,
            kept: 0,
            pressure: Pressure::Little,
            over_since: None,
            oldest: Oldest::default(),
            told: Reminder::default(),
            told_making: Reminder::default(),
            told_other: Reminder::default(),
            waits_for: None,
        }
    }

    pub(super) fn slot(&self) -> &str {
        &self.slot
    }

    /// Whom the slot waits for while it is being made, as a sentence.
    pub(super) fn waits_for(&self) -> Option<&str> {
        self.waits_for.as_deref()
    }

    /// When to look next, if it does not look now.
    pub(super) fn due(&self) -> Option<Instant> {
        self.look.is_none().then_some(self.look_at)
    }

    /// Begins to look, when it is time. To be called only while nothing else is asked of the database.
    pub(super) fn begin(&mut self, store: &Arc<Store>, is_making: bool, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            let (store, slot) = (Arc::clone(store), self.slot.clone());
            let who_holds = is_making || self.kept > WORTH_A_NAME;
            self.look = Some(Box::pin(async move { store.look_at_slot(&slot, who_holds).await }));
        }
    }

    /// Waits for what was seen; forever if it does not look. Cancellation-safe.
    pub(super) async fn next(&mut self) -> Result<Option<SlotLook>, StoreError> {
        let Some(look) = &mut self.look else { return std::future::pending().await };
        let seen = look.await;
        self.look = None;
        seen
    }

    /// Takes in what was seen. Says whether the slot must go.
    pub(super) fn saw(
        &mut self,
        seen: Result<Option<SlotLook>, StoreError>,
        figures: &Figures,
        now: Instant,
    ) -> Option<TooMuch> {
        self.look_at = now + INTERVAL;
        let mut look = match seen {
            Ok(Some(look)) => look,
            Ok(None) => return None, // the stream will tell
            Err(error) => {
                // Whoever needs the connection for more will tell.
                debug!(target: "relay", error = chain(&error), "the slot was not looked at");
                return None;
            }
        };
        self.oldest.seen(look.writer.as_mut(), now);
        let before = std::mem::replace(&mut self.kept, look.kept);
        self.pressure = Pressure::of(&look, self.max);
        let holder = Holder::of(&look, figures);
        self.tell_making(&look, now);
        let asked_who = look.writer.is_some() || before > WORTH_A_NAME;
        if self.pressure > Pressure::Little && !asked_who {
            self.look_at = now; // who holds it is told with it
            return None;
        }
        self.tell(&look, &holder, now);
        self.too_much(&look, &holder, now)
    }

    fn tell_making(&mut self, look: &SlotLook, now: Instant) {
        let waits_for = look.writer.as_ref().filter(|_| look.unconfirmed.is_none());
        self.waits_for = waits_for.map(|writer| format!("{}: {}", Blocker::OF_SLOT, writer.who));
        if let Some(writer) = waits_for
            && self.told_making.is_due(&writer.who.to_string(), 0, now)
        {
            writer.who.tell(Blocker::OF_SLOT);
        }
    }

    fn tell(&mut self, look: &SlotLook, holder: &Holder, now: Instant) {
        let kept = numbers::bytes(look.kept);
        if self.pressure == Pressure::Little {
            if self.told.is_over() {
                info!(target: "relay", slot = self.slot, kept, "the slot keeps little of the WAL again");
            }
            return;
        }
        // One that moves on by itself is not worth a word unless it is about to be lost.
        if *holder == Holder::Nobody && self.pressure < Pressure::NearlyLost {
            return;
        }
        let who = match holder {
            Holder::Transaction(who) | Holder::Lock(who) => who.to_string(),
            other => other.to_string(),
        };
        if !self.told.is_due(&who, self.pressure as u8, now) {
            return;
        }
        let (slot, limit) = (&self.slot, limits(look, self.max));
        if self.pressure == Pressure::NearlyLost {
            warn!(target: "relay", slot, kept, limit, held_by = %holder, "the slot is about to be lost");
        } else {
            warn!(target: "relay", slot, kept, limit, held_by = %holder, "the slot keeps much of the WAL");
        }
    }

    fn too_much(&mut self, look: &SlotLook, holder: &Holder, now: Instant) -> Option<TooMuch> {
        let max = self.max.filter(|max| look.kept > *max);
        let over_since = match max {
            None => {
                self.over_since = None;
                return None;
            }
            Some(_) => *self.over_since.get_or_insert(now),
        };
        if now.duration_since(over_since) < PATIENCE {
            return None;
        }
        let (slot, kept) = (&self.slot, numbers::bytes(look.kept));
        if let Some((other, others)) = look.other.as_ref().filter(|(_, others)| *others > look.kept) {
            if self.told_other.is_due(other, 0, now) {
                let keeps = numbers::bytes(*others);
                warn!(target: "relay", slot, kept, other, keeps, "the slot keeps more than max_slot_wal, but another slot keeps still more: letting it go would free nothing");
            }
            return None;
        }
        let max_slot_wal = numbers::bytes(max.unwrap_or_default());
        warn!(target: "relay", slot, kept, max_slot_wal, held_by = %holder, "the slot keeps more than max_slot_wal: letting it go, and creating it again; events are read from the table");
        Some(TooMuch { kept: look.kept })
    }
}
