//! One ordering key: which of its events are ready or in flight, which wait in memory, and which hold the key.

use std::collections::VecDeque;

use uuid::Uuid;

use super::availability::DestinationHash;
use crate::interface::{Event, KeyName, Limits};

#[derive(Clone, Debug, Default)]
pub(super) struct Key {
    /// Events of the key that are ready or in flight.
    pub(super) active: usize,
    /// How many of `active` hold the key ([`Tracked::is_holder`](super::Tracked::is_holder)).
    pub(super) active_holders: usize,
    /// The destination of the events that are ready or in flight, if they may only be so together with others of the
    /// same destination; `None`: any may.
    pub(super) destination: Option<DestinationHash>,
    /// How many events are in flight to an ordered sink.
    in_flight: usize,
    /// Whether an event was not taken and others of `in_flight` are to come back: until then none leaves.
    pub(super) is_returning: bool,
    /// Events in the table that hold the key.
    pub(super) holders: Vec<Uuid>,
    /// Events that wait in memory, in order of admission.
    queue: VecDeque<Queued>,
    queue_bytes: usize,
    /// The key's name if later events wait in the table; `None`: they do not.
    pub(super) spilled: Option<KeyName>,
    /// The number of the last pass that had begun when an event of the key went back to the table.
    pub(super) went_back_in: u64,
}

crate::marked!(Key {
    active, active_holders, destination, in_flight, is_returning, holders, queue, queue_bytes, spilled, went_back_in as Pass
});

/// A waiting event.
#[derive(Clone, Debug)]
struct Queued {
    id: Uuid,
    bytes: usize,
    destination: Option<DestinationHash>,
}

crate::marked!(Queued { id, bytes, destination });

impl Key {
    /// The event waits in memory.
    pub(super) fn queue(&mut self, event: &Event, destination: Option<DestinationHash>) {
        let bytes = event.memory();
        self.queue_bytes += bytes;
        self.queue.push_back(Queued { id: event.id, bytes, destination });
    }

    /// Takes at most `count` of the events that wait in memory, in their order.
    pub(super) fn release(&mut self, count: usize) -> Vec<Uuid> {
        let released: Vec<Queued> = self.queue.drain(..count.min(self.queue.len())).collect();
        self.queue_bytes -= released.iter().map(|queued| queued.bytes).sum::<usize>();
        released.into_iter().map(|queued| queued.id).collect()
    }

    /// Makes those at the front of the queue active that have the destination of the first of them, or of the events
    /// that are active already.
    pub(super) fn release_together(&mut self) -> Vec<Uuid> {
        if self.active == 0
            && let Some(first) = self.queue.front()
        {
            self.destination = first.destination;
        }
        let count = self.queue.iter().take_while(|queued| queued.destination == self.destination).count();
        self.release(count)
    }

    /// An event is handed to an ordered sink.
    pub(super) fn leaves(&mut self) {
        self.in_flight += 1;
    }

    /// An ordered sink has answered about an event. Returns whether events may leave now that waited for that.
    pub(super) fn answered(&mut self, is_taken: bool) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        let was_returning = self.is_returning;
        self.is_returning = self.in_flight > 0 && (was_returning || !is_taken);
        was_returning && !self.is_returning
    }

    /// The connection is lost, and nothing is in flight.
    pub(super) fn lost(&mut self) {
        (self.in_flight, self.is_returning) = (0, false);
    }

    /// An event of the key is no longer ready or in flight. `was_holder`: it held the key.
    pub(super) fn left(&mut self, was_holder: bool) {
        self.active -= 1;
        self.active_holders -= usize::from(was_holder);
    }

    /// From now on later events of the key wait in the table. Returns how many keys that adds to those that spilled: 1
    /// or 0.
    pub(super) fn spill(&mut self, name: impl FnOnce() -> Option<KeyName>) -> usize {
        if self.spilled.is_some() {
            return 0;
        }
        self.spilled = name();
        usize::from(self.spilled.is_some())
    }

    pub(super) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(super) fn is_held(&self) -> bool {
        self.active_holders > 0 || !self.holders.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.active == 0 && self.queue.is_empty() && self.holders.is_empty() && self.spilled.is_none()
    }

    /// Whether the key waits for nothing but a pass that brings its events from the table.
    pub(super) fn wants_refill(&self, share: &Limits) -> bool {
        self.spilled.is_some() && !self.is_held() && self.is_low(share)
    }

    /// Whether another event may wait in memory.
    pub(super) fn has_room(&self, share: &Limits) -> bool {
        self.queue.len() < share.max_events && self.queue_bytes < share.max_bytes
    }

    pub(super) fn is_low(&self, share: &Limits) -> bool {
        self.queue.len() <= share.max_events / 8 && self.queue_bytes <= share.max_bytes / 8
    }
}
