//! What the broker's nacks say, and what may leave while it refuses everything. Pure: time is an argument.
//!
//! RabbitMQ nacks a message because of the state of a queue: full, without a majority, its process down. It never means the
//! message. So a nack counts as an attempt only where it is shown that the broker takes messages and this queue does not: after
//! the event was refused, another message was published and confirmed, and now the event is refused again.
//!
//! ```text
//!             nacks only: MANY in a row, or nothing else in flight
//!   Open ──────────────────────────────────────────────────────────▶ Refusing: probes, in rounds
//!     ▲                                                                   │
//!     └──────────────────────── the first confirm ────────────────────────┘
//! ```
//!
//! While everything is refused, a round lets some events leave, each of another route (exchange and topic), those first
//! that were tried the longest ago; their number doubles from round to round, and so does the pause. Events of a route that
//! was not refused yet do not wait for a round: a full queue keeps nobody else's event waiting.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{
    faults::{self, Fault},
    interface::{Event, IdHash, NameHash, Text},
};

/// So many nacks without a confirm between them, and nothing more is published as if nothing were wrong.
const MANY: usize = 64;
/// Pause before the first round; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// What an operator still accepts after a repair.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Events of the first round; doubles.
const FIRST_PROBES: usize = 2;
/// So many routes are told apart: some 100 kB. Later ones wait for the rounds.
const MOST_ROUTES: usize = 4096;
/// So many refused events are remembered: some 500 kB. Beyond that all begin anew.
const MOST_REFUSED: usize = 16_384;

/// Stands for exchange and topic. Two routes with one hash share their probes, which is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Route(u64);

crate::marked!(Route { 0 });

/// What a refusal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It is the state of this event's queue, while the broker takes other messages: it counts as an attempt.
    Counts,
    /// Nothing yet.
    Uncounted,
    /// It was tried although the broker has refused everything since then: nobody's fault.
    OutageSince(Instant),
}

#[derive(Clone, Debug)]
struct Refusing {
    since: Instant,
    /// The message that was published last before it.
    after: u64,
    routes: HashMap<Route, Tried, IdHash>,
    /// How many of them were refused.
    refused: usize,
    round: u64,
    round_at: Instant,
    pause: Duration,
    probes: usize,
}

crate::marked!(Refusing { since, after as Message, routes, refused, round, round_at, pause, probes });

#[derive(Clone, Copy, Debug)]
struct Tried {
    /// In which round it was tried last.
    round: u64,
    /// The broker has said no.
    refused: bool,
}

crate::marked!(Tried { round, refused });

#[derive(Clone, Debug)]
pub(crate) struct Refusals {
    /// Messages handed to the broker so far, which numbers them.
    published: u64,
    /// The highest number that was confirmed.
    confirmed: u64,
    /// Nacks since the last confirm.
    in_a_row: usize,
    /// Events that were refused, and the number that the message had then. Forgotten when the connection is another, or a queue
    /// takes messages again.
    refused: HashMap<Uuid, u64, IdHash>,
    refusing: Option<Refusing>,
    hash: NameHash,
}

crate::marked!(Refusals {
    published as Message, confirmed as Message, in_a_row, refused, refusing
} not { hash });

impl Refusals {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            published: 0,
            confirmed: 0,
            in_a_row: 0,
            refused: HashMap::default(),
            refusing: None,
            hash: NameHash::new(seed),
        }
    }

    pub(super) fn route(&self, event: &Event) -> Route {
        Route(self.hash.of((event.exchange.as_ref().map(Text::as_bytes), event.topic.as_bytes())))
    }

    /// The number of the message that is handed to the broker now.
    pub(super) fn publish(&mut self) -> u64 {
        self.published += 1;
        self.published
    }

    /// The number of the message that was published last.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// The highest number of a message that the broker took.
    pub(super) fn last_confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Since when the broker has refused every message.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.refusing.as_ref().map(|refusing| refusing.since)
    }

    /// How many routes it has refused meanwhile.
    pub(crate) fn refused_routes(&self) -> usize {
        self.refusing.as_ref().map_or(0, |refusing| refusing.refused)
    }

    /// The broker took a message. Returns whether that ends a time in which it refused everything.
    pub(super) fn confirmed(&mut self, id: &Uuid, number: u64, route: impl FnOnce(&Self) -> Route) -> bool {
        self.confirmed = self.confirmed.max(number);
        self.in_a_row = 0;
        if !self.refused.is_empty() {
            self.refused.remove(id);
        }
        if self.refusing.is_none() {
            return false;
        }
        let route = route(self);
        let was_refused = |refusing: Refusing| refusing.routes.get(&route).is_some_and(|tried| tried.refused);
        // One of those that were refused is taken again: the trouble is over, and nothing is shown about the others. If it is
        // another, the others were refused while the broker took messages.
        if self.refusing.take().is_some_and(was_refused) {
            self.refused.clear();
        }
        true
    }

    /// The broker refused a message. `others_in_flight`: it owes answers about others.
    pub(super) fn refused(
        &mut self,
        id: Uuid,
        number: u64,
        route: Route,
        others_in_flight: bool,
        now: Instant,
    ) -> Judged {
        if self.refused.len() >= MOST_REFUSED {
            self.refused.clear();
        }
        let before = self.refused.insert(id, number);
        if let Some(refusing) = &mut self.refusing {
            refusing.refused(route);
        }
        if before.is_some_and(|before| self.confirmed > before) || faults::is_on(Fault::NackCounts) {
            return Judged::Counts;
        }
        self.in_a_row += 1;
        if self.refusing.is_none() && (!others_in_flight || self.in_a_row >= MANY) {
            let mut refusing = Refusing::new(self.published, now);
            refusing.refused(route);
            self.refusing = Some(refusing);
        }
        let was_tried = self.refusing.as_ref().filter(|refusing| number > refusing.after);
        was_tried.map_or(Judged::Uncounted, |refusing| Judged::OutageSince(refusing.since))
    }

    /// The event has its verdict.
    pub(super) fn forget(&mut self, id: &Uuid) {
        self.refused.remove(id);
    }

    /// The connection is lost.
    pub(super) fn lost(&mut self) {
        self.refused.clear();
        self.in_a_row = 0;
        self.refusing = None;
    }

    /// Whether an event of the route may leave without waiting for a round: the first of a route that was not tried yet.
    pub(super) fn may_try(&mut self, route: Route) -> bool {
        let Some(refusing) = &mut self.refusing else { return true };
        !refusing.routes.contains_key(&route) && refusing.tried(route).is_some()
    }

    /// When the next round is due, in which events may leave although the broker refuses everything.
    pub(crate) fn next_round(&self) -> Option<Instant> {
        self.refusing.as_ref().map(|refusing| refusing.round_at)
    }

    /// In which round the route was tried last: those with a low number come first.
    pub(super) fn last_tried(&self, route: Route) -> u64 {
        self.refusing.as_ref().and_then(|refusing| refusing.routes.get(&route)).map_or(0, |tried| tried.round)
    }

    /// Begins the round that is due. Returns how many events may leave.
    pub(super) fn begin_round(&mut self, now: Instant) -> usize {
        let Some(refusing) = &mut self.refusing else { return 0 };
        let probes = refusing.probes;
        refusing.round += 1;
        refusing.pause = (refusing.pause * 2).min(LONGEST_PAUSE);
        refusing.probes = probes.saturating_mul(2);
        refusing.round_at = now + refusing.pause;
        probes
    }

    /// An event of the route leaves in this round.
    pub(super) fn tries(&mut self, route: Route) {
        if let Some(refusing) = &mut self.refusing {
            let round = refusing.round;
            if let Some(tried) = refusing.tried(route) {
                tried.round = round;
            }
        }
    }
}

impl Refusing {
    fn new(after: u64, now: Instant) -> Self {
        let round_at = now + FIRST_PAUSE;
        let routes = HashMap::default();
        Self { since: now, after, routes, refused: 0, round: 0, round_at, pause: FIRST_PAUSE, probes: FIRST_PROBES }
    }

    fn refused(&mut self, route: Route) {
        let Some(tried) = self.tried(route) else { return };
        let was_refused = std::mem::replace(&mut tried.refused, true);
        self.refused += usize::from(!was_refused);
    }

    /// What is known of the route; from now on, if nothing was. `None`: too many routes are told apart already.
    fn tried(&mut self, route: Route) -> Option<&mut Tried> {
        let is_known = self.routes.len() < MOST_ROUTES || self.routes.contains_key(&route);
        is_known.then(|| self.routes.entry(route).or_insert(Tried { round: self.round, refused: false }))
    }
}
