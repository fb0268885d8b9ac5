//! What leaves for silent destinations: one event at a time of each, on a side channel. The others wait in the table.

#[cfg(test)]
mod tests;

use std::{cmp::Reverse, collections::HashSet, sync::Arc, time::Instant};

use uuid::Uuid;

use super::{Dispatch, State, Tracked, answers::outage_delay, refusals::Route};
use crate::{
    config::Ordering,
    event::Event,
    faults::{self, Fault},
    hash::IdHash,
    verdict::{Status, Verdict},
};

/// Messages without an answer, for which the relay connects anew.
#[derive(Clone, Debug)]
pub(crate) struct Silence {
    /// The message that has waited the longest.
    pub(crate) event: Arc<Event>,
    /// How many have waited so long.
    pub(crate) events: usize,
    /// Their destinations.
    pub(crate) routes: usize,
}

/// What was taken out of turn for silent destinations, and is to be carried out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parted {
    /// To be published on side channels.
    pub(crate) beside: Vec<Arc<Event>>,
    /// To be written: `PENDING`, without an attempt.
    pub(crate) verdicts: Vec<Verdict>,
}

impl Parted {
    pub(super) fn len(&self) -> usize {
        self.beside.len() + self.verdicts.len()
    }
}

impl Dispatch {
    /// Events handed to the broker on its main channel, and not answered.
    pub(crate) fn on_main_channel(&self) -> usize {
        self.in_flight - self.silences.trials()
    }

    /// Events on side channels, without an answer.
    pub(crate) fn beside(&self) -> usize {
        self.silences.trials()
    }

    /// Events whose answers are worth waiting for before a session ends, and until when that is so.
    pub(crate) fn awaited(&self, now: Instant) -> (usize, Option<Instant>) {
        let (not_late, until) = self.silences.not_late(now);
        (self.on_main_channel() + not_late, until)
    }

    /// What was parted from the rest since this was last asked.
    pub(crate) fn take_parted(&mut self) -> Parted {
        std::mem::take(&mut self.parted)
    }

    /// Whether some destinations have been silent for long while others wait. If so, the relay must connect anew: what was in flight
    /// is unknown and leaves again, at no attempt.
    pub(crate) fn finds_silence(&mut self, now: Instant) -> Option<Silence> {
        let until = self.silences.look(self.refusals.published(), self.on_main_channel(), now)?;
        if faults::is_on(Fault::SilenceUnheard) {
            return None;
        }
        let mut unanswered: Vec<_> = self
            .tracked
            .iter()
            .filter(|(id, tracked)| {
                tracked.state == State::InFlight && tracked.number <= until && !self.silences.is_trial(id)
            })
            .filter_map(|(_, tracked)| Some((tracked.number, tracked.event.clone()?)))
            .collect();
        unanswered.sort_unstable_by_key(|(number, _)| *number);
        let (_, event) = unanswered.first().cloned()?;
        let routes: HashSet<Route, IdHash> = unanswered.iter().map(|(_, event)| self.refusals.route(event)).collect();
        let others_wait = routes.len() > 1 || self.budget.is_crowded() || self.has_others(&routes);
        if !others_wait {
            return None; // nobody waits for it
        }
        let silence = Silence { event, events: unanswered.len(), routes: routes.len() };
        self.silences.found(routes, now);
        self.suspects.interrupted();
        self.outage();
        Some(silence)
    }

    /// Takes events for silent destinations out of those that are next, so many at most. Returns whether the next one may leave as
    /// any other.
    pub(super) fn part(&mut self, max: usize, now: Instant) -> bool {
        if self.silences.is_empty() {
            return true; // nearly always
        }
        while let Some((id, route)) = self.silent_next() {
            if self.parted.len() >= max {
                return false;
            }
            self.ready.pop();
            self.leave_beside(&id, route, now);
        }
        true
    }

    /// An event for a silent destination, which is ready, leaves on a side channel if it may, or else for the table. Returns whether it
    /// left on a side channel.
    pub(super) fn leave_beside(&mut self, id: &Uuid, route: Route, now: Instant) -> bool {
        if self.spill_if_held(id) || self.spill_behind_others(id) {
            return false;
        }
        if !self.silences.may_try(route) {
            self.put_off(id, route, now);
            return false;
        }
        self.hold_key(id);
        let event = self.hand_over(id);
        if let Some(tracked) = self.tracked.get_mut(id) {
            tracked.number = 0; // channels have no order between them: its confirm says nothing about earlier messages
        }
        self.silences.tries(*id, route, now);
        self.parted.beside.extend(event);
        true
    }

    /// The event's destination, if that is silent.
    pub(super) fn silent_route(&self, id: &Uuid) -> Option<Route> {
        let tracked = self.tracked.get(id).filter(|tracked| tracked.state == State::Ready)?;
        let route = self.refusals.route(tracked.event.as_ref()?);
        self.silences.since(route).map(|_| route)
    }

    /// The event that leaves next, if its destination is silent. One that leaves alone is not parted, nor one whose key waits.
    fn silent_next(&self) -> Option<(Uuid, Route)> {
        if self.is_suspect_next() {
            return None;
        }
        let Reverse((_, id)) = self.ready.peek()?;
        let waits = self.key_of(id).is_some_and(|key| self.set_aside_keys.contains(&key));
        if waits { None } else { Some((*id, self.silent_route(id)?)) }
    }

    /// While the event is on its way, later ones of its key wait, in every ordering: the silence may last.
    fn hold_key(&mut self, id: &Uuid) {
        let Some(tracked) = self.tracked.get_mut(id).filter(|tracked| !tracked.returning) else { return };
        if let (Some(key), Some(event)) = (tracked.key, &tracked.event) {
            tracked.returning = true;
            for queued in self.keys.hold_in_flight(key, event) {
                self.leave_to_table(&queued);
            }
            if self.policy.ordering == Ordering::Pipelined {
                self.spill_held();
            }
        }
    }

    /// While earlier events of its key are in flight, the event can neither hold the key nor leave: they may have to leave again. So it
    /// goes back to the table, and what is ready behind it.
    fn spill_behind_others(&mut self, id: &Uuid) -> bool {
        let Some(tracked) = self.tracked.get(id).filter(|tracked| !tracked.returning) else { return false };
        let (Some(key), Some(event)) = (tracked.key, tracked.event.clone()) else { return false };
        if !self.keys.has_others(key) {
            return false; // always, but for pipelined keys
        }
        let is_of_key = |tracked: &Tracked| tracked.key == Some(key);
        if !self.tracked.values().any(|other| other.state == State::InFlight && is_of_key(other)) {
            return false;
        }
        let ready = self.tracked.iter().filter(|(_, other)| other.state == State::Ready && is_of_key(other));
        let behind: HashSet<Uuid, IdHash> = ready.map(|(id, _)| *id).collect();
        self.ready.retain(|Reverse((_, id))| !behind.contains(id));
        for waiting in [&mut self.set_aside, &mut self.suspects.resting] {
            waiting.retain(|(_, id)| !behind.contains(id));
        }
        for id in behind {
            self.keys.leave(key, &event);
            self.leave_to_table(&id);
        }
        true
    }

    /// An event that is ready waits in the table, at no attempt.
    fn put_off(&mut self, id: &Uuid, route: Route, now: Instant) {
        let since = self.silences.since(route).unwrap_or(now);
        let retry_in = outage_delay(&self.policy, &self.budget, now.duration_since(since));
        let Some(tracked) = self.tracked.get_mut(id) else { return };
        let Some(event) = tracked.event.take() else { return };
        self.suspects.cleared(id, std::mem::take(&mut tracked.endings));
        let left = tracked.leaves(self.policy.holds(Status::Pending));
        let (verdict, _) = self.decide(id, event, left, Status::Pending, None, retry_in);
        self.parted.verdicts.push(verdict);
    }

    /// Whether an event of another destination waits, or is in flight.
    fn has_others(&self, routes: &HashSet<Route, IdHash>) -> bool {
        self.tracked.values().filter(|tracked| matches!(tracked.state, State::Ready | State::InFlight)).any(|tracked| {
            tracked.event.as_ref().is_some_and(|event| {
                let route = self.refusals.route(event);
                !routes.contains(&route) && self.silences.since(route).is_none()
            })
        })
    }
}
