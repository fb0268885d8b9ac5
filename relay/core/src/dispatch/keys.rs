//! Ordering keys: who waits for whom, and whose events wait in the table.

use std::collections::{HashMap, HashSet, VecDeque};

use uuid::Uuid;

use crate::{
    config::{Limits, Ordering},
    event::{Event, KeyHolder, KeyName, Text},
    faults::{self, Fault},
    hash::{IdHash, NameHash},
};

/// When an event of a key may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// May leave now.
    Now,
    /// May leave now: it is the one that its key waits for.
    Returning,
    /// Waits until its key is free.
    Behind,
    /// Its key has no room: it waits in the table.
    Full,
}

/// A hash stands for the key: a collision orders two keys that need no order, which is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct KeyHash(u64);

#[derive(Clone, Debug, Default)]
struct Key {
    /// Key of the key that are on their way: ready or in flight.
    leaving: usize,
    /// How many of them were refused before: they hold the key in every ordering.
    returning: usize,
    /// Key in the table that hold the key.
    holders: Vec<Uuid>,
    /// Waiting in memory, in order of admission.
    queue: VecDeque<Queued>,
    queue_bytes: usize,
    /// Later events wait in the table.
    spilled: Option<KeyName>,
    /// The pass before whose end an event of the key last went back to the table.
    left_in: u64,
}

/// A waiting event.
#[derive(Clone, Debug)]
struct Queued {
    id: Uuid,
    bytes: usize,
}

impl Key {
    fn release(&mut self, count: usize) -> Vec<Uuid> {
        let released: Vec<Queued> = self.queue.drain(..count.min(self.queue.len())).collect();
        self.queue_bytes -= released.iter().map(|queued| queued.bytes).sum::<usize>();
        released.into_iter().map(|queued| queued.id).collect()
    }

    fn is_held(&self) -> bool {
        self.returning > 0 || !self.holders.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.leaving == 0 && self.queue.is_empty() && self.holders.is_empty() && self.spilled.is_none()
    }

    /// Whether it waits for nothing but a pass to bring its events from the table.
    fn wants_refill(&self, share: &Limits) -> bool {
        self.spilled.is_some() && !self.is_held() && self.is_low(share)
    }

    fn is_low(&self, share: &Limits) -> bool {
        self.queue.len() <= share.max_events / 8 && self.queue_bytes <= share.max_bytes / 8
    }
}

#[derive(Clone, Debug)]
pub(super) struct Keys {
    ordering: Ordering,
    share: Limits,
    hash: NameHash,
    keys: HashMap<KeyHash, Key, IdHash>,
    spilled: usize,
    /// Passes that have begun.
    passes: u64,
}

impl Keys {
    pub(super) fn new(ordering: Ordering, share: Limits, seed: u64) -> Self {
        Self { ordering, share, hash: NameHash::new(seed), keys: HashMap::default(), spilled: 0, passes: 0 }
    }

    /// Keys that something is known of.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The event's key, if it has one and keys mean something.
    pub(super) fn of(&self, event: &Event) -> Option<KeyHash> {
        let id = event.aggregate_id.as_ref().filter(|_| self.ordering != Ordering::None)?;
        Some(self.hash(event.aggregate_type.as_ref().map(Text::as_bytes), id.as_bytes()))
    }

    pub(super) fn enter(&mut self, hash: KeyHash, event: &Event) -> Turn {
        let key = self.keys.entry(hash).or_default();
        if event.holds_key {
            // Later events of the key are in the table, although this memory may not have seen how they came there.
            spill(key, &mut self.spilled, event);
            key.holders.retain(|id| *id != event.id);
            key.leaving += 1;
            key.returning += 1;
            return Turn::Returning;
        }
        if key.spilled.is_some() {
            return Turn::Full;
        }
        let free = match self.ordering {
            Ordering::Strict => {
                key.leaving <= usize::from(faults::is_on(Fault::StrictTwoAtATime)) && key.queue.is_empty()
            }
            Ordering::Pipelined | Ordering::None => key.queue.is_empty(),
        };
        if free {
            key.leaving += 1;
            return Turn::Now;
        }
        if key.queue.len() >= self.share.max_events || key.queue_bytes >= self.share.max_bytes {
            spill(key, &mut self.spilled, event);
            return Turn::Full;
        }
        let bytes = event.memory();
        key.queue_bytes += bytes;
        key.queue.push_back(Queued { id: event.id, bytes });
        Turn::Behind
    }

    /// The event goes back to the table and holds its key there. Returns the events that it leaves no place for in memory.
    pub(super) fn hold(&mut self, hash: KeyHash, event: &Event, returning: bool) -> Vec<Uuid> {
        let Some(key) = self.keys.get_mut(&hash) else { return Vec::new() };
        key.leaving -= 1;
        key.returning -= usize::from(returning);
        if !faults::is_on(Fault::HolderForgotten) {
            key.holders.push(event.id);
        }
        key.left_in = self.passes;
        spill(key, &mut self.spilled, event);
        key.release(usize::MAX)
    }

    /// Whether an event that was free to leave must wait after all, since one before it was refused: in the table.
    pub(super) fn spill_if_held(&mut self, hash: KeyHash) -> bool {
        let Some(key) = self.keys.get_mut(&hash).filter(|key| key.is_held()) else { return false };
        key.leaving -= 1;
        key.left_in = self.passes;
        true
    }

    /// The event has its verdict; one that was refused before, also in the table. Returns the events that may leave now.
    pub(super) fn leave(&mut self, hash: KeyHash, returning: bool) -> Vec<Uuid> {
        let strict = self.ordering == Ordering::Strict;
        let Some(key) = self.keys.get_mut(&hash) else { return Vec::new() };
        key.leaving -= 1;
        key.returning -= usize::from(returning);
        let released = match (key.is_held(), strict, key.leaving) {
            (false, true, 0) => key.release(1),
            (false, false, _) => key.release(usize::MAX),
            _ => Vec::new(),
        };
        key.leaving += released.len();
        if key.is_idle() {
            self.keys.remove(&hash);
        }
        released
    }

    /// An event that held its key is no longer in the table.
    pub(super) fn gone(&mut self, hash: KeyHash, event: &Uuid) {
        if let Some(key) = self.keys.get_mut(&hash) {
            key.holders.retain(|id| id != event);
        }
    }

    /// A pass begins to read the table.
    pub(super) fn begin_pass(&mut self) {
        self.passes += 1;
    }

    /// Keys whose later events wait in the table.
    pub(super) fn spilled(&self) -> Vec<KeyName> {
        self.names(|_| true)
    }

    /// Spilled keys that still have much in memory.
    pub(super) fn full(&self) -> Vec<KeyName> {
        self.names(|key| !key.is_low(&self.share))
    }

    pub(super) fn wants_refill(&self) -> bool {
        self.spilled > 0
            && !faults::is_on(Fault::RefillLost)
            && self.keys.values().any(|key| key.wants_refill(&self.share))
    }

    /// Learns from the table which events hold their keys. Those that `is_here`, in memory, have told already.
    /// Returns the events that it leaves no place for in memory.
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
                if key.spilled.is_none() {
                    key.spilled = Some(name.clone());
                    self.spilled += 1;
                }
            }
        }
        waiting
    }

    /// A pass offers every row of the keys that spilled, but for those that it left out, those that are held back, and those
    /// of which an event was in memory when it began to read and has gone back to the table since.
    pub(super) fn unspill(&mut self, left_out: &[KeyName]) {
        if self.spilled > 0 {
            let left_out: HashSet<&KeyName> = left_out.iter().collect();
            self.keys.retain(|_, key| {
                if !key.is_held() && key.left_in < self.passes {
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

/// From now on the key's later events wait in the table.
fn spill(key: &mut Key, spilled: &mut usize, event: &Event) {
    if let Some(id) = event.aggregate_id.as_ref().filter(|_| key.spilled.is_none()) {
        let aggregate_type = event.aggregate_type.as_ref().map(|text| text.as_str().to_owned());
        key.spilled = Some(KeyName { aggregate_type, aggregate_id: id.as_str().to_owned() });
        *spilled += 1;
    }
}
