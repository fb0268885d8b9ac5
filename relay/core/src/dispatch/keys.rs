//! Ordering keys: which events wait for which, and whose later events wait in the table.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::{availability::DestinationHash, key::Key};
use crate::{
    faults::{self, Fault},
    interface::{Event, IdHash, KeyHolder, KeyName, Limits, NameHash, Ordering, Text},
};

/// Where an event of a key is to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere: it may leave now.
    Now,
    /// Nowhere: it holds the key, and the others wait for it.
    Holder,
    /// In memory, until its key is free.
    Behind,
    /// In the table, since its key has no room in memory or is held.
    Full,
}

/// A key, as a hash. A collision orders two keys that need no order, which is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KeyHash(u64);

crate::marked!(KeyHash { 0 });

/// Which events of a key may be ready or in flight together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Together {
    /// None: the next leaves once the one before has its verdict.
    OneAtATime,
    /// Those with the same destination, where an ordered sink keeps their order.
    OneDestination,
    /// All.
    Any,
}

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    ordering: Ordering,
    together: Together,
    /// Whether the sink keeps the order of a key's events itself.
    is_ordered: bool,
    share: Limits,
    hash: NameHash,
    keys: HashMap<KeyHash, Key, IdHash>,
    spilled: usize,
    /// How many passes have begun.
    passes: u64,
}

crate::marked!(Keys { keys, spilled, passes as Pass } not { ordering, together, is_ordered, share, hash });

impl Keys {
    pub(super) fn new(ordering: Ordering, is_ordered: bool, share: Limits, seed: u64) -> Self {
        let together = match ordering {
            Ordering::Strict if is_ordered && faults::is_on(Fault::DestinationsTogether) => Together::Any,
            Ordering::Strict if is_ordered || faults::is_on(Fault::StrictTogether) => Together::OneDestination,
            Ordering::Strict => Together::OneAtATime,
            Ordering::Pipelined | Ordering::None => Together::Any,
        };
        let (hash, keys) = (NameHash::new(seed), HashMap::default());
        Self { ordering, together, is_ordered, share, hash, keys, spilled: 0, passes: 0 }
    }

    /// Whether several events of a key may be in flight.
    pub(super) fn leave_together(&self) -> bool {
        self.together != Together::OneAtATime
    }

    /// Whether the sink keeps the order of a key's events itself.
    pub(super) fn are_ordered_by_sink(&self) -> bool {
        self.is_ordered
    }

    /// How many keys are known.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// How many keys have later events that wait in the table.
    pub(crate) fn spilled_count(&self) -> usize {
        self.spilled
    }

    /// The event's key; `None`: it has none, or keys are ignored.
    pub(super) fn of(&self, event: &Event) -> Option<KeyHash> {
        let id = event.aggregate_id.as_ref().filter(|_| self.ordering != Ordering::None)?;
        Some(self.hash(event.aggregate_type.as_ref().map(Text::as_bytes), id.as_bytes()))
    }

    pub(super) fn enter(&mut self, hash: KeyHash, event: &Event) -> Place {
        let is_one_destination = self.together == Together::OneDestination;
        let destination = is_one_destination.then(|| DestinationHash::of(event, &self.hash));
        let key = self.keys.entry(hash).or_default();
        if key.active == 0 && !key.has_queue() {
            key.destination = destination;
        }
        if event.holds_key {
            // Later events of the key are in the table, even if an earlier session put them there.
            self.spilled += key.spill(|| event.key_name());
            key.holders.retain(|id| *id != event.id);
            key.active += 1;
            key.active_holders += 1;
            return Place::Holder;
        }
        if key.spilled.is_some() {
            return Place::Full;
        }
        let may_join = match self.together {
            Together::OneAtATime => key.active < 1 + usize::from(faults::is_on(Fault::StrictTwoAtATime)),
            Together::OneDestination => key.destination == destination,
            Together::Any => true,
        };
        if may_join && !key.has_queue() {
            key.active += 1;
            return Place::Now;
        }
        if !key.has_room(&self.share) {
            self.spilled += key.spill(|| event.key_name());
            return Place::Full;
        }
        key.queue(event, destination);
        Place::Behind
    }

    /// The event goes back to the table and holds its key there. Returns the key's events in memory, which the caller
    /// leaves to the table.
    pub(super) fn hold(&mut self, hash: KeyHash, event: &Event, was_holder: bool) -> Vec<Uuid> {
        let Some(key) = self.keys.get_mut(&hash) else { return Vec::new() };
        key.left(was_holder);
        if !faults::is_on(Fault::HolderForgotten) {
            key.holders.push(event.id);
        }
        key.went_back_in = self.passes;
        self.spilled += key.spill(|| event.key_name());
        key.release(usize::MAX)
    }

    /// Whether more than one event of the key is ready or in flight.
    pub(super) fn has_others(&self, hash: KeyHash) -> bool {
        self.keys.get(&hash).is_some_and(|key| key.active > 1)
    }

    /// The event holds its key while it is in flight. Returns the events that wait in memory, which the caller leaves
    /// to the table.
    pub(super) fn hold_in_flight(&mut self, hash: KeyHash, event: &Event) -> Vec<Uuid> {
        let Some(key) = self.keys.get_mut(&hash) else { return Vec::new() };
        key.active_holders += 1;
        key.went_back_in = self.passes;
        self.spilled += key.spill(|| event.key_name());
        key.release(usize::MAX)
    }

    /// A ready event goes back to the table, where all later events of its key wait from now on. `event` may be any
    /// event of the key, for only the key's name is used.
    pub(super) fn leave(&mut self, hash: KeyHash, event: &Event) {
        let Some(key) = self.keys.get_mut(&hash) else { return };
        key.left(false);
        key.went_back_in = self.passes;
        self.spilled += key.spill(|| event.key_name());
    }

    /// Whether a ready event's key is held. If so the event is no longer active, and the caller leaves it to the table.
    pub(super) fn spill_if_held(&mut self, hash: KeyHash) -> bool {
        let Some(key) = self.keys.get_mut(&hash).filter(|key| key.is_held()) else { return false };
        key.left(false);
        key.went_back_in = self.passes;
        true
    }

    /// An event of the key is done: it has its verdict, and if it held the key, the verdict is written. Returns the
    /// events that may leave now.
    pub(super) fn finished(&mut self, hash: KeyHash, was_holder: bool) -> Vec<Uuid> {
        let Some(key) = self.keys.get_mut(&hash) else { return Vec::new() };
        key.left(was_holder);
        let released = match (key.is_held(), self.together, key.active) {
            (false, Together::OneAtATime, 0) => key.release(1),
            (false, Together::OneDestination, _) => key.release_together(),
            (false, Together::Any, _) => key.release(usize::MAX),
            _ => Vec::new(),
        };
        key.active += released.len();
        if key.is_idle() {
            self.keys.remove(&hash);
        }
        released
    }

    /// An event is handed to the sink.
    pub(super) fn leaves(&mut self, hash: KeyHash) {
        if self.is_ordered
            && let Some(key) = self.keys.get_mut(&hash)
        {
            key.leaves();
        }
    }

    /// The sink has answered about an event. Returns whether ready events of the key may leave now that waited for
    /// that.
    pub(super) fn answered(&mut self, hash: KeyHash, is_taken: bool) -> bool {
        self.is_ordered && self.keys.get_mut(&hash).is_some_and(|key| key.answered(is_taken))
    }

    /// Whether an event of the key was not taken and later ones have yet to come back, so that none leaves before them.
    pub(super) fn is_returning(&self, hash: KeyHash) -> bool {
        self.is_ordered
            && !faults::is_on(Fault::BehindOvertaken)
            && self.keys.get(&hash).is_some_and(|key| key.is_returning)
    }

    /// The connection is lost, and nothing is in flight.
    pub(super) fn lost(&mut self) {
        if self.is_ordered {
            self.keys.values_mut().for_each(Key::lost);
        }
    }

    /// An event that held the key is no longer in the table.
    pub(super) fn gone(&mut self, hash: KeyHash, event: &Uuid) {
        if let Some(key) = self.keys.get_mut(&hash) {
            key.holders.retain(|id| id != event);
        }
    }

    /// A pass begins to read the table.
    pub(super) fn begin_pass(&mut self) {
        self.passes += 1;
    }

    /// The keys whose later events wait in the table.
    pub(crate) fn spilled(&self) -> Vec<KeyName> {
        self.names(|_| true)
    }

    /// The keys whose later events wait in the table and that still have much in memory: a pass leaves them out.
    pub(crate) fn full(&self) -> Vec<KeyName> {
        self.names(|key| !key.is_low(&self.share))
    }

    /// Whether a key has events in the table and little left in memory, so that it is time for a pass.
    pub(crate) fn wants_refill(&self) -> bool {
        self.spilled > 0
            && !faults::is_on(Fault::RefillLost)
            && self.keys.values().any(|key| key.wants_refill(&self.share))
    }

    /// Learns from the table which events hold their keys. `is_here`: the event is in memory, so its key knows it
    /// already. Returns events in memory whose keys turn out to be held, which the caller leaves to the table.
    pub(super) fn learn(&mut self, holders: &[KeyHolder], is_here: impl Fn(&Uuid) -> bool) -> Vec<Uuid> {
        let mut waiting = Vec::new();
        for key in self.keys.values_mut() {
            key.holders.retain(&is_here);
        }
        for KeyHolder { key: name, id } in holders {
            if self.ordering != Ordering::None && !is_here(id) {
                let hash = self.hash(name.aggregate_type.as_ref().map(String::as_bytes), name.aggregate_id.as_bytes());
                let key = self.keys.entry(hash).or_default();
                key.holders.push(*id);
                waiting.extend(key.release(usize::MAX));
                self.spilled += key.spill(|| Some(name.clone()));
            }
        }
        waiting
    }

    /// A pass is about to offer, in order, all rows of the keys that spilled, so their events may be admitted again.
    /// Exceptions are keys that the pass left out, held keys, and keys of which an event went back to the table after
    /// the pass had begun.
    pub(crate) fn unspill(&mut self, left_out: &[KeyName]) {
        if self.spilled > 0 {
            let left_out: BTreeSet<&KeyName> = left_out.iter().collect();
            self.keys.retain(|_, key| {
                if !key.is_held() && key.went_back_in < self.passes {
                    key.spilled = key.spilled.take().filter(|name| left_out.contains(name));
                }
                !key.is_idle()
            });
            self.spilled = self.keys.values().filter(|key| key.spilled.is_some()).count();
        }
    }

    fn names(&self, filter: impl Fn(&Key) -> bool) -> Vec<KeyName> {
        if self.spilled == 0 {
            return Vec::new();
        }
        self.keys.values().filter(|key| filter(key)).filter_map(|key| key.spilled.clone()).collect()
    }

    fn hash(&self, aggregate_type: Option<&[u8]>, aggregate_id: &[u8]) -> KeyHash {
        KeyHash(self.hash.of((aggregate_type, aggregate_id)))
    }
}
