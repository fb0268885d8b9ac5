//! Ordering keys: who waits for whom, and which key has outgrown its share of memory.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasher,
};

use uuid::Uuid;

use super::Limits;
use crate::event::{Event, Text};

/// How events with the same key (`aggregate_type`, `aggregate_id`) leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// The next leaves when the one before has its verdict: no nack can reorder them.
    Strict,
    /// They may be in flight together; a nack between them can reorder. For one very hot key.
    Pipelined,
    /// Keys mean nothing.
    None,
}

/// A key whose later events wait in the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpilledKey {
    /// `aggregate_type` of its events.
    pub aggregate_type: Option<String>,
    /// `aggregate_id` of its events.
    pub aggregate_id: String,
}

pub(super) enum Entry {
    /// May leave now.
    Free,
    /// Waits until its key is free.
    Behind,
    /// Its key has no room.
    Full,
}

impl SpilledKey {
    /// Whether the event has this key.
    pub fn is_of(&self, event: &Event) -> bool {
        event.aggregate_id.as_ref().is_some_and(|id| id.as_str() == self.aggregate_id)
            && event.aggregate_type.as_ref().map(Text::as_str) == self.aggregate_type.as_deref()
    }
}

/// A hash stands for the key: a collision orders two keys that need no order, which is harmless.
type KeyHash = u64;

#[derive(Debug, Default)]
struct Key {
    /// Events of the key that are on their way: ready, in flight or retrying.
    leaving: usize,
    /// How many of them were refused and have no verdict yet: they hold the key in every ordering.
    blocking: usize,
    /// Waiting, in order of admission.
    held: VecDeque<Held>,
    held_bytes: usize,
    spilled: Option<SpilledKey>,
}

/// A waiting event.
#[derive(Debug)]
struct Held {
    order: u64,
    id: Uuid,
    bytes: usize,
}

impl Key {
    fn hold(&mut self, place: usize, event: &Event, order: u64) {
        let bytes = event.memory();
        self.held_bytes += bytes;
        self.held.insert(place, Held { order, id: event.id, bytes });
    }

    fn release(&mut self, count: usize) -> Vec<Uuid> {
        let released: Vec<Held> = self.held.drain(..count.min(self.held.len())).collect();
        self.held_bytes -= released.iter().map(|held| held.bytes).sum::<usize>();
        self.leaving += released.len();
        released.into_iter().map(|held| held.id).collect()
    }
}

#[derive(Debug)]
pub(super) struct Keys {
    ordering: Ordering,
    share: Limits,
    hasher: std::hash::RandomState,
    keys: HashMap<KeyHash, Key>,
    spilled: usize,
}

impl Keys {
    pub(super) fn new(ordering: Ordering, share: Limits) -> Self {
        Self { ordering, share, hasher: std::hash::RandomState::new(), keys: HashMap::new(), spilled: 0 }
    }

    pub(super) fn enter(&mut self, event: &Event, order: u64) -> Entry {
        let Some((hash, aggregate_id)) = self.hash(event) else { return Entry::Free };
        let key = self.keys.entry(hash).or_default();
        if key.spilled.is_some() {
            return Entry::Full;
        }
        let free = match self.ordering {
            Ordering::Strict => key.leaving == 0,
            Ordering::Pipelined | Ordering::None => key.blocking == 0 && key.held.is_empty(),
        };
        if free {
            key.leaving += 1;
            return Entry::Free;
        }
        if key.held.len() >= self.share.max_events || key.held_bytes >= self.share.max_bytes {
            let aggregate_type = event.aggregate_type.as_ref().map(|text| text.as_str().to_owned());
            key.spilled = Some(SpilledKey { aggregate_type, aggregate_id: aggregate_id.as_str().to_owned() });
            self.spilled += 1;
            return Entry::Full;
        }
        key.hold(key.held.len(), event, order);
        Entry::Behind
    }

    /// The event was refused for the first time and will be tried again: its key's later events wait for it.
    pub(super) fn block(&mut self, event: &Event) {
        if let Some(key) = self.key_of(event) {
            key.blocking += 1;
        }
    }

    /// Whether an event that was free to leave must wait after all, behind a refused one; it is held if so.
    pub(super) fn hold_back(&mut self, event: &Event, order: u64) -> bool {
        let Some(key) = self.key_of(event).filter(|key| key.blocking > 0) else { return false };
        key.leaving -= 1;
        let place = key.held.partition_point(|held| held.order < order);
        key.hold(place, event, order);
        true
    }

    /// The event has its verdict. Returns the events that may leave now.
    pub(super) fn leave(&mut self, event: &Event, blocks: bool) -> Vec<Uuid> {
        let strict = self.ordering == Ordering::Strict;
        let Some(hash) = self.hash(event).map(|(hash, _)| hash) else { return Vec::new() };
        let Some(key) = self.keys.get_mut(&hash) else { return Vec::new() };
        key.leaving -= 1;
        if blocks {
            key.blocking -= 1;
        }
        let released = match (strict, key.leaving, key.blocking) {
            (true, 0, _) => key.release(1),
            (false, _, 0) => key.release(usize::MAX),
            _ => Vec::new(),
        };
        if key.leaving == 0 && key.spilled.is_none() {
            self.keys.remove(&hash);
        }
        released
    }

    pub(super) fn spilled(&self) -> Vec<SpilledKey> {
        if self.spilled == 0 {
            return Vec::new();
        }
        self.keys.values().filter_map(|key| key.spilled.clone()).collect()
    }

    /// Spilled keys that still have much in memory.
    pub(super) fn full(&self) -> Vec<SpilledKey> {
        if self.spilled == 0 {
            return Vec::new();
        }
        self.keys.values().filter(|key| !self.is_low(key)).filter_map(|key| key.spilled.clone()).collect()
    }

    pub(super) fn wants_refill(&self) -> bool {
        self.spilled > 0 && self.keys.values().any(|key| key.spilled.is_some() && self.is_low(key))
    }

    pub(super) fn unspill(&mut self, still_full: &[SpilledKey]) {
        if self.spilled > 0 {
            self.keys.retain(|_, key| {
                key.spilled = key.spilled.take().filter(|spilled| still_full.contains(spilled));
                key.leaving > 0 || key.spilled.is_some()
            });
            self.spilled = self.keys.values().filter(|key| key.spilled.is_some()).count();
        }
    }

    fn is_low(&self, key: &Key) -> bool {
        key.held.len() <= self.share.max_events / 8 && key.held_bytes <= self.share.max_bytes / 8
    }

    fn key_of(&mut self, event: &Event) -> Option<&mut Key> {
        let (hash, _) = self.hash(event)?;
        self.keys.get_mut(&hash)
    }

    fn hash<'e>(&self, event: &'e Event) -> Option<(KeyHash, &'e Text)> {
        let aggregate_id = event.aggregate_id.as_ref().filter(|_| self.ordering != Ordering::None)?;
        let aggregate_type = event.aggregate_type.as_ref().map(Text::as_bytes);
        Some((self.hasher.hash_one((aggregate_type, aggregate_id.as_bytes())), aggregate_id))
    }
}
