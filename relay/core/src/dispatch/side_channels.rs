//! Events for silent destinations: one at a time of each destination leaves on a side channel, and the others wait in
//! the table.

#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use uuid::Uuid;

use super::{Dispatch, State, Tracked, availability::DestinationHash, outcomes::outage_delay};
use crate::{
    faults::{self, Fault},
    interface::{Event, IdHash, Status, Verdict},
};

/// A message without an answer: its number, where it goes, and its event.
type Unanswered = (u64, DestinationHash, Arc<Event>);

/// Why the relay connects anew: these messages were not answered.
#[derive(Clone, Debug)]
pub(crate) struct Silence {
    /// The message that has waited the longest.
    pub(crate) event: Arc<Event>,
    /// Number of messages that have waited through all looks. If a later message was confirmed, only those before it
    /// count.
    pub(crate) events: usize,
    /// Number of destinations of these messages.
    pub(crate) destinations: usize,
}

/// Events that `next_batch` has split off: those for silent destinations, and those that are too large.
#[derive(Clone, Debug, Default)]
pub(crate) struct SplitOff {
    /// Events to be published on side channels.
    pub(crate) on_side_channels: Vec<Arc<Event>>,
    /// Verdicts to be written for the others: `PENDING`, without an attempt.
    pub(crate) verdicts: Vec<(Verdict, Arc<Event>)>,
    /// Events that are larger than the broker takes, with their verdicts.
    pub(crate) too_large: Vec<(Verdict, Arc<Event>)>,
}

crate::marked!(SplitOff { on_side_channels, verdicts, too_large });

impl SplitOff {
    pub(super) fn len(&self) -> usize {
        self.on_side_channels.len() + self.verdicts.len() + self.too_large.len()
    }
}

impl Dispatch {
    /// Unanswered events on the main channel.
    pub(crate) fn on_main_channel(&self) -> usize {
        self.in_flight - self.silences.trials()
    }

    /// Unanswered events on side channels.
    pub(crate) fn on_side_channels(&self) -> usize {
        self.silences.trials()
    }

    /// How many answers a drain waits for, and when the next of those on side channels is late; `None`: no drain waits
    /// for any of these.
    pub(crate) fn unanswered(&self, now: Instant) -> (usize, Option<Instant>) {
        let (not_late, until) = self.silences.not_late(now);
        (self.on_main_channel() + not_late, until)
    }

    /// Takes the events that were split off since the last call.
    pub(crate) fn take_split_off(&mut self) -> SplitOff {
        std::mem::take(&mut self.split_off)
    }

    /// Finds destinations that have left messages unanswered through all looks while others wait, and do not merely
    /// answer slowly. The relay then connects anew: events in flight leave again, and no attempt counts. `is_full`: no
    /// more events may leave on the main channel.
    pub(crate) fn finds_silence(&mut self, is_full: bool, now: Instant) -> Option<Silence> {
        let look = self.silences.look(self.availability.published(), self.on_main_channel(), now)?;
        if faults::is_on(Fault::SilenceUnheard) {
            return None;
        }
        let mut unanswered = self.unanswered_up_to(look.waiting);
        let mut firsts = HashMap::default();
        for (number, destination, _) in &unanswered {
            firsts.entry(*destination).or_insert(*number);
        }
        self.silences.note_firsts(firsts);
        let earliest = unanswered.first().map(|(number, ..)| *number);
        unanswered.retain(|(number, destination, _)| *number <= look.silent && self.silences.is_stuck(*destination));
        let (first, _, event) = unanswered.first().cloned()?;
        let destinations = destinations_of(&unanswered);
        let is_full = is_full || self.suspects.is_one_alone();
        let others_wait = destinations.len() > 1
            || self.budget.is_crowded()
            || self.others_wait(&destinations, look.waiting, is_full);
        let confirmed = self.availability.last_confirmed();
        if !others_wait && first > look.long.min(confirmed) {
            return None;
        }
        // The broker has not come to it yet, behind a slow destination.
        if first > confirmed && earliest < Some(first) {
            return None;
        }
        // If a later message was confirmed, only messages before it are silent by themselves; later ones merely stand
        // behind them.
        if first < confirmed {
            let last = if others_wait { confirmed } else { look.long };
            unanswered.retain(|(number, ..)| *number <= last);
        }
        let destinations = destinations_of(&unanswered);
        let silence = Silence { event, events: unanswered.len(), destinations: destinations.len() };
        self.silences.found(destinations, now);
        self.suspects.interrupted();
        self.outage();
        Some(silence)
    }

    /// Splits events for silent destinations off the front of `ready`, until `max` are split off. Returns `false` if
    /// the next event is for a silent destination as well.
    pub(super) fn split_off_silent(&mut self, max: usize, now: Instant) -> bool {
        if self.silences.is_empty() {
            return true; // nearly always
        }
        while let Some((id, destination)) = self.silent_next() {
            if self.split_off.len() >= max {
                return false;
            }
            self.ready.pop();
            self.leave_on_side_channel(&id, destination, now);
        }
        true
    }

    /// Sends a ready event on a side channel, and returns whether it did. Otherwise the event goes back to the table,
    /// because its key is held or no side channel is free for its destination; or it is too large, or waits for later
    /// ones of its key to come back.
    pub(super) fn leave_on_side_channel(&mut self, id: &Uuid, destination: DestinationHash, now: Instant) -> bool {
        if self.spill_if_held(id) || self.waits_for_return(id) || self.spill_behind_others(id) || self.is_too_large(id)
        {
            return false;
        }
        if !self.silences.may_try(destination) {
            self.put_off(id, destination, now);
            return false;
        }
        self.hold_key(id);
        let event = self.hand_over(id);
        if let Some(tracked) = self.tracked.get_mut(id) {
            tracked.number = 0; // a confirm on a side channel says nothing about earlier messages on others
        }
        self.silences.tries(*id, destination, now);
        self.split_off.on_side_channels.extend(event);
        true
    }

    /// The event's destination if it is silent; `None`: it is not, or the event is not ready.
    pub(super) fn silent_destination(&self, id: &Uuid) -> Option<DestinationHash> {
        let tracked = self.tracked.get(id).filter(|tracked| tracked.state == State::Ready)?;
        let destination = self.availability.destination(tracked.event.as_ref()?);
        self.silences.since(destination).map(|_| destination)
    }

    /// The next event and its destination if that is silent. `None` as well for a suspect, and for an event whose key
    /// is set aside.
    fn silent_next(&self) -> Option<(Uuid, DestinationHash)> {
        if self.is_suspect_next() {
            return None;
        }
        let Reverse((_, id)) = self.ready.peek()?;
        let waits = self.key_of(id).is_some_and(|key| self.set_aside_keys.contains(&key));
        if waits { None } else { Some((*id, self.silent_destination(id)?)) }
    }

    /// The event holds its key until it is answered, in every ordering, since that may take long. No other event of the
    /// key is in flight.
    pub(super) fn hold_key(&mut self, id: &Uuid) {
        let Some(tracked) = self.tracked.get_mut(id).filter(|tracked| !tracked.is_holder) else { return };
        if let (Some(key), Some(event)) = (tracked.key, &tracked.event) {
            tracked.is_holder = true;
            for queued in self.keys.hold_in_flight(key, event) {
                self.leave_to_table(&queued);
            }
            if self.keys.leave_together() {
                self.spill_held();
            }
        }
    }

    /// If earlier events of the key are in flight, leaves this one and all ready events of its key to the table: the
    /// earlier ones may have to leave again. Returns whether it did.
    fn spill_behind_others(&mut self, id: &Uuid) -> bool {
        let Some(tracked) = self.tracked.get(id).filter(|tracked| !tracked.is_holder) else { return false };
        let (Some(key), Some(event)) = (tracked.key, tracked.event.clone()) else { return false };
        if !self.keys.has_others(key) {
            return false; // always, where one event of a key leaves at a time
        }
        let is_of_key = |tracked: &Tracked| tracked.key == Some(key);
        if !self.tracked.values().any(|other| other.state == State::InFlight && is_of_key(other)) {
            return false;
        }
        let ready = self.tracked.iter().filter(|(_, other)| other.state == State::Ready && is_of_key(other));
        let behind: HashSet<Uuid, IdHash> = ready.map(|(id, _)| *id).collect();
        self.ready.retain(|Reverse((_, id))| !behind.contains(id));
        for waiting in [&mut self.set_aside, &mut self.suspects.resting, &mut self.behind] {
            waiting.retain(|(_, id)| !behind.contains(id));
        }
        for id in behind {
            self.keys.leave(key, &event);
            self.leave_to_table(&id);
        }
        true
    }

    /// Leaves a ready event to the table, as `PENDING` with a later `available_at`. No attempt counts.
    fn put_off(&mut self, id: &Uuid, destination: DestinationHash, now: Instant) {
        let since = self.silences.since(destination).unwrap_or(now);
        let retry_in = outage_delay(&self.policy, &self.budget, now.duration_since(since));
        let Some(tracked) = self.tracked.get_mut(id) else { return };
        let Some(event) = tracked.event.take() else { return };
        self.suspects.cleared(id, std::mem::take(&mut tracked.endings));
        let landed = tracked.land(self.policy.holds(Status::Pending));
        let put_off = self.decide(id, event, landed, Status::Pending, None, Some(retry_in));
        self.split_off.verdicts.push(put_off);
    }

    /// Messages on the main channel up to this number that have no answer, in the order in which they left.
    fn unanswered_up_to(&self, number: u64) -> Vec<Unanswered> {
        let is_one = |tracked: &Tracked| tracked.state == State::InFlight && tracked.number <= number;
        let mut unanswered: Vec<_> = self
            .tracked
            .iter()
            .filter(|(id, tracked)| is_one(tracked) && !self.silences.is_trial(id))
            .filter_map(|(_, tracked)| {
                let event = tracked.event.clone()?;
                Some((tracked.number, self.availability.destination(&event), event))
            })
            .collect();
        unanswered.sort_unstable_by_key(|(number, ..)| *number);
        unanswered
    }

    /// Whether an event of another destination waits: in flight since message number `waiting` or before, or ready
    /// although no more events may leave.
    fn others_wait(&self, destinations: &HashSet<DestinationHash, IdHash>, waiting: u64, is_full: bool) -> bool {
        let waits = |tracked: &Tracked| match tracked.state {
            State::InFlight => tracked.number <= waiting,
            State::Ready => is_full,
            _ => false,
        };
        self.tracked.values().filter(|tracked| waits(tracked)).any(|tracked| {
            tracked.event.as_ref().is_some_and(|event| {
                let destination = self.availability.destination(event);
                !destinations.contains(&destination) && self.silences.since(destination).is_none()
            })
        })
    }
}

fn destinations_of(unanswered: &[Unanswered]) -> HashSet<DestinationHash, IdHash> {
    unanswered.iter().map(|(_, destination, _)| *destination).collect()
}
