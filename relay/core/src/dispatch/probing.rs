//! What leaves while every destination is unavailable: few events, and some of each destination.

#[cfg(test)]
mod tests;

use std::{cmp::Reverse, collections::HashSet, sync::Arc, time::Instant};

use uuid::Uuid;

use super::{Dispatch, State, availability::DestinationHash, keys::KeyHash};
use crate::{
    faults::{self, Fault},
    interface::{Event, IdHash},
};

impl Dispatch {
    /// Takes the first events of destinations that were not tried yet, and the events of a round if one is due.
    pub(super) fn next_probes(&mut self, max: usize, now: Instant) -> Vec<Arc<Event>> {
        let mut batch = Vec::new();
        while self.split_off_silent(max.saturating_sub(batch.len()), now)
            && !self.is_suspect_next()
            && let Some(Reverse((order, id))) = self.ready.pop()
        {
            let Some(destination) = self.may_leave_by(order, &id) else { continue };
            let waits = self.key_of(&id).is_some_and(|key| self.set_aside_keys.contains(&key));
            let may_leave = !waits && batch.len() + self.split_off.len() < max;
            if may_leave && self.is_too_large(&id) {
                continue; // it tries no destination
            }
            if may_leave && self.availability.may_try(destination) {
                batch.extend(self.hand_over(&id));
            } else {
                self.set_aside(order, id);
            }
        }
        let may_leave = max.saturating_sub(batch.len() + self.split_off.len());
        let is_due = self.availability.next_round().is_some_and(|at| at <= now);
        // A single unavailable destination is likely to be one queue. It must not fill memory, and its outcomes make
        // room for events of other destinations.
        let makes_room = self.availability.unavailable_destinations() == 1 && self.budget.is_crowded();
        if may_leave > 0 && !self.set_aside.is_empty() && (is_due || makes_room) {
            let probes = if is_due { self.availability.begin_round(now) } else { 0 };
            let probes = if makes_room { may_leave } else { probes.min(may_leave) };
            for (order, id) in self.choose(probes) {
                if let Some(destination) = self.silent_destination(&id) {
                    self.leave_on_side_channel(&id, destination, now);
                } else if let Some(destination) = self.destination_of(order, &id) {
                    self.availability.tries(destination);
                    batch.extend(self.hand_over(&id));
                }
            }
        }
        batch
    }

    /// Takes at most `probes` of the events that are set aside: the oldest of each destination, and of each key. In
    /// crowded memory it takes more of a destination, since their outcomes make room.
    fn choose(&mut self, probes: usize) -> Vec<(u64, Uuid)> {
        let mut waiting = std::mem::take(&mut self.set_aside);
        waiting.sort_unstable();
        self.set_aside_keys.clear();
        let is_crowded = self.budget.is_crowded();
        let mut destinations: HashSet<DestinationHash, IdHash> = HashSet::default();
        let mut ranked = Vec::with_capacity(waiting.len());
        for (order, id) in waiting {
            let Some(destination) = self.may_leave_by(order, &id) else { continue };
            let is_first_of_key = self.key_of(&id).is_none_or(|key| self.set_aside_keys.insert(key));
            let is_first_of_destination = is_first_of_key && destinations.insert(destination);
            let may_leave = is_first_of_key && (is_first_of_destination || is_crowded);
            ranked.push((!may_leave, !is_first_of_destination, self.availability.last_tried(destination), order, id));
        }
        ranked.sort_unstable();
        let leaving = ranked.iter().take(probes).filter(|(stays, ..)| !stays).count();
        self.set_aside_keys.clear();
        for (.., order, id) in ranked.split_off(leaving) {
            self.set_aside(order, id);
        }
        ranked.into_iter().map(|(.., order, id)| (order, id)).collect()
    }

    /// Probing is over: events that were set aside are ready.
    pub(super) fn end_probing(&mut self) {
        self.ready.extend(self.set_aside.drain(..).map(Reverse));
        self.set_aside_keys.clear();
    }

    fn set_aside(&mut self, order: u64, id: Uuid) {
        self.set_aside_keys.extend(self.key_of(&id));
        self.set_aside.push((order, id));
    }

    pub(super) fn key_of(&self, id: &Uuid) -> Option<KeyHash> {
        self.tracked.get(id)?.key
    }

    /// The event's destination; `None`: the event takes no place in a round, since its key is held, it waits for others
    /// to come back, or it has left memory.
    fn may_leave_by(&mut self, order: u64, id: &Uuid) -> Option<DestinationHash> {
        let destination = self.destination_of(order, id)?;
        let goes_back = !faults::is_on(Fault::HeldTakesProbes) && self.spill_if_held(id);
        let leaves = !goes_back && !self.waits_for_return(id);
        leaves.then_some(destination)
    }

    /// The destination of a ready event; `None`: it has left memory.
    fn destination_of(&self, order: u64, id: &Uuid) -> Option<DestinationHash> {
        let tracked = self.tracked.get(id).filter(|tracked| tracked.order == order && tracked.state == State::Ready)?;
        tracked.event.as_ref().map(|event| self.availability.destination(event))
    }
}
