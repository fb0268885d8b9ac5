//! What leaves while the broker refuses everything: little, and of each route something.

use std::{cmp::Reverse, collections::HashSet, sync::Arc, time::Instant};

use uuid::Uuid;

use super::{Dispatch, State, refusals::Route};
use crate::{event::Event, hash::IdHash};

impl Dispatch {
    /// Since when the broker has refused every message.
    pub(crate) fn refusing_since(&self) -> Option<Instant> {
        self.refusals.since()
    }

    /// How many routes it has refused meanwhile.
    pub(crate) fn refused_routes(&self) -> usize {
        self.refusals.refused_routes()
    }

    /// When events may leave although it refuses everything.
    pub(crate) fn next_round(&self) -> Option<Instant> {
        self.refusals.next_round()
    }

    /// The first events of routes that were not tried yet, and those of a round, if one is due.
    pub(super) fn next_probes(&mut self, max: usize, now: Instant) -> Vec<Arc<Event>> {
        let mut batch = Vec::new();
        while let Some(Reverse((order, id))) = self.ready.pop() {
            let Some(route) = self.route_of(order, &id) else { continue };
            let waits = self
                .tracked
                .get(&id)
                .and_then(|tracked| tracked.key)
                .is_some_and(|key| self.set_aside_keys.contains(&key));
            if !waits && batch.len() < max && self.refusals.may_try(route) {
                batch.extend(self.leave(&id));
            } else {
                self.set_aside(order, id);
            }
        }
        let may_leave = max - batch.len();
        let is_due = self.refusals.next_round().is_some_and(|at| at <= now);
        // Where all that is known to be refused goes one way, it is likely to be one queue: it must not fill memory, and what it
        // refuses makes room for what goes elsewhere.
        let makes_room = self.refusals.refused_routes() == 1 && self.is_crowded();
        if may_leave > 0 && !self.set_aside.is_empty() && (is_due || makes_room) {
            let probes = if is_due { self.refusals.begin_round(now) } else { 0 };
            let probes = if makes_room { may_leave } else { probes.min(may_leave) };
            for id in self.choose(probes) {
                if let Some(route) = self.tracked.get(&id).and_then(|tracked| self.route_of(tracked.order, &id)) {
                    self.refusals.tries(route);
                    batch.extend(self.leave(&id));
                }
            }
        }
        batch
    }

    /// Takes at most `probes` of the events that are set aside: of each route the oldest, and of each key. When memory is
    /// crowded, it takes more of a route, for they make room.
    fn choose(&mut self, probes: usize) -> Vec<Uuid> {
        let mut waiting = std::mem::take(&mut self.set_aside);
        self.set_aside_keys.clear();
        waiting.sort_unstable();
        let mut routes: HashSet<Route, IdHash> = HashSet::default();
        let mut candidates = Vec::new();
        for (order, id) in waiting {
            let Some(route) = self.route_of(order, &id) else { continue };
            let key = self.tracked.get(&id).and_then(|tracked| tracked.key);
            let is_first_of_key = key.is_none_or(|key| self.set_aside_keys.insert(key));
            let is_first_of_route = is_first_of_key && routes.insert(route);
            candidates.push(Candidate { is_next: is_first_of_key, repeats: !is_first_of_route, route, order, id });
        }
        let crowded = self.is_crowded();
        let mut chosen: Vec<&Candidate> =
            candidates.iter().filter(|event| event.is_next && (crowded || !event.repeats)).collect();
        chosen.sort_by_key(|event| (event.repeats, self.refusals.last_tried(event.route), event.order));
        chosen.truncate(probes);
        let chosen: Vec<Uuid> = chosen.into_iter().map(|event| event.id).collect();
        let leaving: HashSet<&Uuid, IdHash> = chosen.iter().collect();
        let stay: Vec<_> = candidates
            .iter()
            .filter(|event| !leaving.contains(&event.id))
            .map(|event| (event.order, event.id))
            .collect();
        self.set_aside_keys.clear();
        for (order, id) in stay {
            self.set_aside(order, id);
        }
        chosen
    }

    /// Events that were set aside may leave as any.
    pub(super) fn end_probing(&mut self) {
        self.ready.extend(self.set_aside.drain(..).map(Reverse));
        self.set_aside_keys.clear();
    }

    /// Whether refused events must make room in memory for others.
    pub(super) fn is_crowded(&self) -> bool {
        let (limits, (events, bytes)) = (self.budget.limits(), self.budget.room());
        events < limits.max_events / 2 || bytes < limits.max_bytes / 2
    }

    fn set_aside(&mut self, order: u64, id: Uuid) {
        self.set_aside_keys.extend(self.tracked.get(&id).and_then(|tracked| tracked.key));
        self.set_aside.push((order, id));
    }

    /// `None` if the event has left memory.
    fn route_of(&self, order: u64, id: &Uuid) -> Option<Route> {
        let tracked = self.tracked.get(id).filter(|tracked| tracked.order == order && tracked.state == State::Ready)?;
        tracked.event.as_ref().map(|event| self.refusals.route(event))
    }
}

struct Candidate {
    /// It is the oldest of its key.
    is_next: bool,
    /// An older one of its route may leave.
    repeats: bool,
    route: Route,
    order: u64,
    id: Uuid,
}
