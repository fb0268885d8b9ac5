//! Which destinations take messages, and what may leave while none does. Pure: time is an argument.
//!
//! An [`Unavailable`](crate::Outcome::Unavailable) outcome says something about the destination and nothing about the
//! message: RabbitMQ nacks because a queue is full, has no majority, or its process is down. So it counts as an attempt
//! only if the broker demonstrably took messages while this destination did not: after the event was unavailable,
//! another message was published and confirmed, and then the event is unavailable again.
//!
//! ```text
//!         unavailable only: MANY in a row, or nothing else in flight
//!   Open ──────────────────────────────────────────────────────────▶ Probing, in rounds
//!     ▲                                                                   │
//!     └──────────────────────── the first confirm ────────────────────────┘
//! ```
//!
//! While every destination is unavailable, a round lets some events leave, each for another destination, beginning with
//! the destinations whose last try is longest ago. The number of events doubles from round to round, and so does the
//! pause. The first event for a destination that was not tried yet does not wait for a round, so a full queue delays no
//! other.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{
    faults::{self, Fault},
    interface::{Event, IdHash, NameHash},
};

/// After this many unavailable outcomes in a row, normal publishing stops and probing begins.
const MANY: usize = 64;
/// Pause before the first round. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause: what an operator still accepts after a repair.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Events of the first round. Their number doubles from round to round.
const FIRST_PROBES: usize = 2;
/// Most destinations that are told apart, in some 100 kB. Events for further ones wait for the rounds.
const MOST_DESTINATIONS: usize = 4096;
/// Most unavailable events that are remembered, in some 500 kB. Beyond that all are forgotten.
const MOST_UNAVAILABLE: usize = 16_384;

/// An event's destination, as a hash. Two destinations with the same hash share their probes,
/// which is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DestinationHash(u64);

crate::marked!(DestinationHash { 0 });

impl DestinationHash {
    pub(super) fn of(event: &Event, hash: &NameHash) -> Self {
        Self(hash.of(&event.destination))
    }
}

/// Whether an unavailable outcome counts as an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The attempt counts: this event's destination takes nothing while the broker takes other messages.
    Counts,
    /// The attempt does not count: nothing is known yet about other destinations.
    Uncounted,
    /// The attempt does not count: every destination has been unavailable since this moment, and the event was a probe.
    InOutage(Instant),
}

#[derive(Clone, Debug)]
struct Probing {
    since: Instant,
    /// The number of the last message that was published before probing began.
    after: u64,
    destinations: HashMap<DestinationHash, Tried, IdHash>,
    /// How many of `destinations` were unavailable.
    unavailable: usize,
    round: u64,
    round_at: Instant,
    pause: Duration,
    probes: usize,
}

crate::marked!(Probing { since, after as Message, destinations, unavailable, round, round_at, pause, probes });

#[derive(Clone, Copy, Debug)]
struct Tried {
    /// The round in which the destination was last tried.
    round: u64,
    /// Whether the destination's last outcome was unavailable.
    is_unavailable: bool,
}

crate::marked!(Tried { round, is_unavailable });

#[derive(Clone, Debug)]
pub(crate) struct Availability {
    /// How many messages were handed to the broker. The count numbers them.
    published: u64,
    /// The highest number of a confirmed message.
    confirmed: u64,
    /// Unavailable outcomes since the last confirm.
    in_a_row: usize,
    /// Events that were unavailable, each with the number that its message had. They are forgotten when the connection
    /// is lost, or an unavailable destination takes messages again.
    unavailable: HashMap<Uuid, u64, IdHash>,
    probing: Option<Probing>,
    hash: NameHash,
}

crate::marked!(Availability {
    published as Message, confirmed as Message, in_a_row, unavailable, probing
} not { hash });

impl Availability {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            published: 0,
            confirmed: 0,
            in_a_row: 0,
            unavailable: HashMap::default(),
            probing: None,
            hash: NameHash::new(seed),
        }
    }

    pub(super) fn destination(&self, event: &Event) -> DestinationHash {
        DestinationHash::of(event, &self.hash)
    }

    /// Numbers the message that is handed to the broker now.
    pub(super) fn publish(&mut self) -> u64 {
        self.published += 1;
        self.published
    }

    /// The number of the last message that was published.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// The highest number of a confirmed message.
    pub(super) fn last_confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Since when every destination has been unavailable; `None`: none is, or only some are.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.probing.as_ref().map(|probing| probing.since)
    }

    /// How many destinations were found unavailable since then.
    pub(crate) fn unavailable_destinations(&self) -> usize {
        self.probing.as_ref().map_or(0, |probing| probing.unavailable)
    }

    /// The broker has confirmed a message. Returns whether that ends the probing.
    pub(super) fn confirmed(
        &mut self,
        id: &Uuid,
        number: u64,
        destination: impl FnOnce(&Self) -> DestinationHash,
    ) -> bool {
        self.confirmed = self.confirmed.max(number);
        self.in_a_row = 0;
        if !self.unavailable.is_empty() {
            self.unavailable.remove(id);
        }
        if self.probing.is_none() {
            return false;
        }
        let destination = destination(self);
        let was_unavailable =
            |probing: Probing| probing.destinations.get(&destination).is_some_and(|tried| tried.is_unavailable);
        // A confirm from a destination that was unavailable says that the outage is over, and nothing about other
        // destinations. A confirm from another one shows that the broker took messages while those were unavailable.
        if self.probing.take().is_some_and(was_unavailable) {
            self.unavailable.clear();
        }
        true
    }

    /// The broker has the message from before. Returns whether that ends the probing: its destination can be read back
    /// again, which had made it unavailable. It says nothing about whether the broker takes messages.
    pub(super) fn found(&mut self, destination: impl FnOnce(&Self) -> DestinationHash) -> bool {
        if self.probing.is_none() {
            return false;
        }
        let destination = destination(self);
        let is_unavailable =
            |probing: &mut Probing| probing.destinations.get(&destination).is_some_and(|tried| tried.is_unavailable);
        self.probing.take_if(is_unavailable).is_some()
    }

    /// A message's destination was unavailable. `others_in_flight`: other messages have no outcome yet.
    pub(super) fn unavailable(
        &mut self,
        id: Uuid,
        number: u64,
        destination: DestinationHash,
        others_in_flight: bool,
        now: Instant,
    ) -> Attempt {
        if self.unavailable.len() >= MOST_UNAVAILABLE {
            self.unavailable.clear();
        }
        let before = self.unavailable.insert(id, number);
        if let Some(probing) = &mut self.probing {
            probing.unavailable(destination);
        }
        if before.is_some_and(|before| self.confirmed > before) || faults::is_on(Fault::NackCounts) {
            return Attempt::Counts;
        }
        self.in_a_row += 1;
        if self.probing.is_none() && (!others_in_flight || self.in_a_row >= MANY) {
            let mut probing = Probing::new(self.published, now);
            probing.unavailable(destination);
            self.probing = Some(probing);
        }
        let was_tried = self.probing.as_ref().filter(|probing| number > probing.after);
        was_tried.map_or(Attempt::Uncounted, |probing| Attempt::InOutage(probing.since))
    }

    /// A message came back behind another, and nothing is in flight any more that could still be confirmed. So if the
    /// last outcomes were unavailable, probing begins.
    pub(super) fn came_back(&mut self, now: Instant) {
        if self.in_a_row > 0 && self.probing.is_none() {
            self.probing = Some(Probing::new(self.published, now));
        }
    }

    /// The event is given up, so a replay of it begins anew.
    pub(super) fn forget(&mut self, id: &Uuid) {
        self.unavailable.remove(id);
    }

    /// The connection is lost.
    pub(super) fn lost(&mut self) {
        self.unavailable.clear();
        self.in_a_row = 0;
        self.probing = None;
    }

    /// Whether an event may leave without waiting for a round: only the first for a destination that was not tried yet.
    pub(super) fn may_try(&mut self, destination: DestinationHash) -> bool {
        let Some(probing) = &mut self.probing else { return true };
        !probing.destinations.contains_key(&destination) && probing.tried(destination).is_some()
    }

    /// When the next round is due, in which some events may leave; `None`: no probing is under
    /// way.
    pub(crate) fn next_round(&self) -> Option<Instant> {
        self.probing.as_ref().map(|probing| probing.round_at)
    }

    /// The round in which the destination was last tried; 0: before the first round.
    pub(super) fn last_tried(&self, destination: DestinationHash) -> u64 {
        self.probing.as_ref().and_then(|probing| probing.destinations.get(&destination)).map_or(0, |tried| tried.round)
    }

    /// Begins the round that is due. Returns how many events may leave.
    pub(super) fn begin_round(&mut self, now: Instant) -> usize {
        let Some(probing) = &mut self.probing else { return 0 };
        let probes = probing.probes;
        probing.round += 1;
        probing.pause = (probing.pause * 2).min(LONGEST_PAUSE);
        probing.probes = probes.saturating_mul(2);
        probing.round_at = now + probing.pause;
        probes
    }

    /// An event for the destination leaves in this round.
    pub(super) fn tries(&mut self, destination: DestinationHash) {
        if let Some(probing) = &mut self.probing {
            let round = probing.round;
            if let Some(tried) = probing.tried(destination) {
                tried.round = round;
            }
        }
    }
}

impl Probing {
    fn new(after: u64, now: Instant) -> Self {
        let round_at = now + FIRST_PAUSE;
        let destinations = HashMap::default();
        Self {
            since: now,
            after,
            destinations,
            unavailable: 0,
            round: 0,
            round_at,
            pause: FIRST_PAUSE,
            probes: FIRST_PROBES,
        }
    }

    fn unavailable(&mut self, destination: DestinationHash) {
        let Some(tried) = self.tried(destination) else { return };
        let was_unavailable = std::mem::replace(&mut tried.is_unavailable, true);
        self.unavailable += usize::from(!was_unavailable);
    }

    /// The entry of the destination, which is remembered from now on; `None`: too many destinations are remembered
    /// already.
    fn tried(&mut self, destination: DestinationHash) -> Option<&mut Tried> {
        let is_known = self.destinations.len() < MOST_DESTINATIONS || self.destinations.contains_key(&destination);
        is_known
            .then(|| self.destinations.entry(destination).or_insert(Tried { round: self.round, is_unavailable: false }))
    }
}
