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

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{
    event::{Event, Text},
    faults::{self, Fault},
    hash::{IdHash, NameHash},
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Route(u64);

/// A refused message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    /// Its event.
    pub(super) id: Uuid,
    /// Its number.
    pub(super) number: u64,
    /// Its route.
    pub(super) route: Route,
    /// Whether the broker owes answers about others.
    pub(super) others_in_flight: bool,
}

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

#[derive(Clone, Copy, Debug)]
struct Tried {
    /// In which round it was tried last.
    round: u64,
    /// The broker has said no.
    refused: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Refusals {
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

    /// Since when everything has been refused.
    pub(super) fn since(&self) -> Option<Instant> {
        self.refusing.as_ref().map(|refusing| refusing.since)
    }

    /// How many routes were refused meanwhile.
    pub(super) fn refused_routes(&self) -> usize {
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

    /// The broker refused a message.
    pub(super) fn refused(&mut self, message: Refused, now: Instant) -> Judged {
        let Refused { id, number, route, others_in_flight } = message;
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
        let is_new = refusing.routes.len() < MOST_ROUTES && !refusing.routes.contains_key(&route);
        if is_new {
            refusing.routes.insert(route, Tried { round: refusing.round, refused: false });
        }
        is_new
    }

    /// When the next round is due.
    pub(super) fn next_round(&self) -> Option<Instant> {
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
            if let Some(tried) = refusing.routes.get_mut(&route) {
                tried.round = round;
            } else if refusing.routes.len() < MOST_ROUTES {
                refusing.routes.insert(route, Tried { round, refused: false });
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
        if self.routes.len() < MOST_ROUTES || self.routes.contains_key(&route) {
            let tried = self.routes.entry(route).or_insert(Tried { round: self.round, refused: false });
            self.refused += usize::from(!std::mem::replace(&mut tried.refused, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FULL: Route = Route(1);
    const HEALTHY: Route = Route(2);

    fn refuse(refusals: &mut Refusals, id: u128, others_in_flight: bool, now: Instant) -> Judged {
        let number = refusals.publish();
        refusals.refused(Refused { id: Uuid::from_u128(id), number, route: FULL, others_in_flight }, now)
    }

    fn confirm(refusals: &mut Refusals, route: Route) -> bool {
        let number = refusals.publish();
        refusals.confirmed(&Uuid::max(), number, |_| route)
    }

    #[test]
    fn a_refusal_counts_once_a_later_message_was_taken_and_the_event_is_refused_again() {
        let now = Instant::now();
        let mut refusals = Refusals::new(0);
        assert_eq!(refuse(&mut refusals, 1, true, now), Judged::Uncounted, "others may be taken yet, or not");
        assert!(!confirm(&mut refusals, HEALTHY));
        assert_eq!(refuse(&mut refusals, 1, true, now), Judged::Counts);
        assert_eq!(refuse(&mut refusals, 1, true, now), Judged::Uncounted, "nothing was taken since");
    }

    #[test]
    fn a_full_queue_whose_events_are_all_the_traffic_is_told_apart_by_the_first_event_of_another_route() {
        let now = Instant::now();
        let mut refusals = Refusals::new(0);
        assert_eq!(refuse(&mut refusals, 1, false, now), Judged::Uncounted);
        assert_eq!(refusals.since(), Some(now));
        assert_eq!(refuse(&mut refusals, 2, false, now), Judged::OutageSince(now));
        assert!(refusals.may_try(HEALTHY) && !refusals.may_try(HEALTHY) && !refusals.may_try(FULL));
        assert!(confirm(&mut refusals, HEALTHY) && refusals.since().is_none());
        assert_eq!(refuse(&mut refusals, 1, false, now), Judged::Counts);
    }

    #[test]
    fn what_was_refused_before_a_queue_came_back_or_over_another_connection_counts_for_nothing() {
        let now = Instant::now();
        let mut refusals = Refusals::new(0);
        refuse(&mut refusals, 1, false, now);
        assert!(confirm(&mut refusals, FULL), "it was refused, and is taken again");
        assert_eq!(refuse(&mut refusals, 1, true, now), Judged::Uncounted);
        confirm(&mut refusals, HEALTHY);
        refusals.lost();
        assert_eq!(refuse(&mut refusals, 1, true, now), Judged::Uncounted);
    }

    #[test]
    fn the_broker_is_asked_often_at_first_and_never_less_than_every_five_seconds() {
        let start = Instant::now();
        let mut refusals = Refusals::new(0);
        refuse(&mut refusals, 1, false, start);
        let mut rounds = Vec::new();
        for _ in 0..10 {
            let at = refusals.next_round().unwrap();
            rounds.push((at.duration_since(start).as_millis(), refusals.begin_round(at)));
        }
        assert_eq!(rounds[..4], [(100, 2), (300, 4), (700, 8), (1500, 16)]);
        assert_eq!(rounds[9].0 - rounds[8].0, LONGEST_PAUSE.as_millis());
    }

    proptest! {
        #[test]
        fn without_a_confirm_no_refusal_ever_counts_and_the_broker_is_soon_taken_to_refuse_everything(
            refused in prop::collection::vec((0_usize..20, any::<bool>()), MANY..300),
        ) {
            let now = Instant::now();
            let mut refusals = Refusals::new(0);
            for (event, others_in_flight) in refused {
                prop_assert_ne!(refuse(&mut refusals, event as u128, others_in_flight, now), Judged::Counts);
            }
            prop_assert!(refusals.since().is_some());
        }

        #[test]
        fn among_others_that_are_taken_every_refusal_but_the_first_counts(
            others in prop::collection::vec(1_usize..5, 2..50),
        ) {
            let now = Instant::now();
            let mut refusals = Refusals::new(0);
            for (round, count) in others.into_iter().enumerate() {
                let expected = if round == 0 { Judged::Uncounted } else { Judged::Counts };
                prop_assert_eq!(refuse(&mut refusals, 1, true, now), expected);
                for _ in 0..count {
                    confirm(&mut refusals, HEALTHY);
                }
            }
        }
    }
}
