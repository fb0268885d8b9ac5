//! Destinations that leave messages unanswered. Pure: time is an argument.
//!
//! From RabbitMQ 4.0 on, a quorum queue without its majority neither confirms nor nacks. The channel that publishes to
//! it soon takes nothing more, and then the whole connection: one queue stops all others. The remedy has two parts:
//!
//! ```text
//! unanswered at [LOOKS] looks in a row, others wait ──▶ the relay connects anew ──▶ the destination is silent
//!                                                                                         │
//!       any answer but a late nack ──▶ as any other ◀── one event at a time, on a side channel
//! ```
//!
//! A slow queue is not silent if it catches up, as after a memory alarm. The destination's first unanswered message
//! must have been its first for [`WAITING_LOOKS`], or it must have answered less than half of what it had within
//! [`LOOKS`]: such a queue slows all others down to its own pace.
//!
//! Looks are counted instead of time, since a process that was stopped for a while has looked only once.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::availability::DestinationHash;
use crate::interface::IdHash;

/// Looks through which a message must be unanswered before its destination counts as silent.
const LOOKS: usize = 4;
/// Most looks. They double each time that the relay connects anew for silence, so that a slow broker gets its answers
/// through. At one look a second, 16 take less than the 30 s after which the sink gives up a connection without any
/// confirm.
const MOST_LOOKS: usize = 16;
/// After this many looks without another silence, [`LOOKS`] suffice again: five minutes at one look a second.
const CALM: u32 = 300;
/// An event of another destination counts as waiting after this many looks without an answer, and a destination as
/// stuck after this many at which the same message was its first without one.
const WAITING_LOOKS: usize = 2;
/// Looks through which a message must be unanswered while later ones are confirmed, before its destination counts as
/// silent although nobody waits. At one look a second that is half a minute, as for a connection without any confirm.
const LONG_LOOKS: usize = 32;
/// Most side channels, each with one message. RabbitMQ allows 2,047 channels by default, and each costs it some 50 kB.
pub const SIDE_CHANNELS: usize = 32;
/// Most destinations that are remembered as silent, in some 100 kB. Beyond that all are forgotten.
const MOST_DESTINATIONS: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct Silences {
    /// The time between two looks.
    pause: Duration,
    /// Looks through which a message must be unanswered before its destination counts as silent.
    looks: usize,
    look_at: Option<Instant>,
    /// The highest number of a message at each of the latest looks, oldest first.
    published: VecDeque<u64>,
    /// Of each destination at the latest look, if it had left a message unanswered for [`WAITING_LOOKS`].
    firsts: HashMap<DestinationHash, First, IdHash>,
    /// The silent destinations, each with the moment at which its silence was found.
    since: HashMap<DestinationHash, Instant, IdHash>,
    /// Unanswered messages on side channels.
    trials: Vec<Trial>,
    /// When the relay last connected anew for silence; `None`: that was more than [`CALM`] looks ago, or never.
    found_at: Option<Instant>,
    /// Side channels that the connection may use.
    side_channels: usize,
}

crate::marked!(Silences {
    looks, look_at, published as Message, firsts, since, trials, found_at, side_channels,
} not { pause });

/// The first unanswered message of a destination, and how far the destination comes.
#[derive(Clone, Copy, Debug)]
struct First {
    number: u64,
    /// At how many earlier looks in a row it was the first.
    looks: usize,
    stretch: Stretch,
    /// Whether the destination answered less than half of the last whole stretch.
    crawls: bool,
}

crate::marked!(First { number as Message, looks, stretch, crawls });

/// What a destination is to answer within [`LOOKS`]. Its messages are not counted: their numbers are taken to be spread
/// evenly among all.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The first unanswered message when the stretch began.
    first: u64,
    /// The last message that had left by then.
    last: u64,
    /// Looks since then.
    age: usize,
}

crate::marked!(Stretch { first as Message, last as Message, age });

impl First {
    fn new(number: u64, published: u64) -> Self {
        Self { number, looks: 0, stretch: Stretch { first: number, last: published, age: 0 }, crawls: false }
    }

    /// The first unanswered message at the next look.
    fn next(self, number: u64, published: u64) -> Self {
        let looks = if number == self.number { self.looks + 1 } else { 0 };
        let Stretch { first, last, age } = self.stretch;
        if age + 1 < LOOKS {
            return Self { number, looks, stretch: Stretch { first, last, age: age + 1 }, crawls: self.crawls };
        }
        let crawls = 2 * number.saturating_sub(first) < last + 1 - first;
        Self { looks, crawls, ..Self::new(number, published) }
    }
}

/// The result of a look, by the numbers of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// An unanswered message up to this number has waited through all looks; 0: there have not been that many.
    pub(super) silent: u64,
    /// An unanswered message up to this number has waited through [`WAITING_LOOKS`].
    pub(super) waiting: u64,
    /// An unanswered message up to this number has waited through [`LONG_LOOKS`]; 0: there have not been that many.
    pub(super) long: u64,
}

/// A message on a side channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    id: Uuid,
    pub(super) destination: DestinationHash,
    began: Instant,
}

crate::marked!(Trial { id, destination, began });

impl Silences {
    /// `silent_after`: a destination counts as silent after this time without an answer.
    pub(super) fn new(silent_after: Duration) -> Self {
        Self {
            pause: silent_after / LOOKS as u32,
            looks: LOOKS,
            look_at: None,
            published: VecDeque::new(),
            firsts: HashMap::default(),
            since: HashMap::default(),
            trials: Vec::new(),
            found_at: None,
            side_channels: SIDE_CHANNELS,
        }
    }

    /// Takes a look if one is due; `None`: it is not, or no message can have waited through [`WAITING_LOOKS`].
    /// `published`: the highest number so far; `on_main`: unanswered messages on the main channel.
    pub(super) fn look(&mut self, published: u64, on_main: usize, now: Instant) -> Option<Look> {
        if on_main == 0 {
            self.rest();
            return None;
        }
        if self.look_at.is_some_and(|at| now < at) {
            return None;
        }
        self.look_at = Some(now + self.pause);
        let calm = CALM * self.pause;
        if self.found_at.take_if(|at| now.duration_since(*at) > calm).is_some() {
            self.looks = LOOKS;
        }
        if self.published.len() > LONG_LOOKS {
            self.published.pop_front();
        }
        self.published.push_back(published);
        let ago = |looks: usize| self.published.iter().rev().nth(looks).copied();
        let [silent, long] = [self.looks, LONG_LOOKS].map(|looks| ago(looks).unwrap_or(0));
        Some(Look { silent, waiting: ago(WAITING_LOOKS)?, long })
    }

    /// Notes the first unanswered message of each destination that has one up to [`Look::waiting`]; of the others
    /// nothing is remembered.
    pub(super) fn note_firsts(&mut self, firsts: HashMap<DestinationHash, u64, IdHash>) {
        let before = std::mem::take(&mut self.firsts);
        let published = self.published.back().copied().unwrap_or(0);
        let now = |(destination, number)| {
            let earlier = before.get(&destination);
            let first =
                earlier.map_or_else(|| First::new(number, published), |earlier| earlier.next(number, published));
            (destination, first)
        };
        self.firsts = firsts.into_iter().map(now).collect();
    }

    /// Whether the destination's first unanswered message has been its first for [`WAITING_LOOKS`], or the destination
    /// crawls.
    pub(super) fn is_stuck(&self, destination: DestinationHash) -> bool {
        self.firsts.get(&destination).is_some_and(|first| first.looks >= WAITING_LOOKS || first.crawls)
    }

    /// Forgets the looks, since nothing is in flight on the main channel, or nothing may leave.
    pub(crate) fn rest(&mut self) {
        self.look_at = None;
        self.published.clear();
        self.firsts.clear();
    }

    /// When the next look is due; `None`: no messages are being watched.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.look_at
    }

    /// These destinations are silent, and the relay connects anew.
    pub(super) fn found(&mut self, destinations: impl IntoIterator<Item = DestinationHash>, now: Instant) {
        self.found_at = Some(now);
        self.looks = (2 * self.looks).min(MOST_LOOKS);
        for destination in destinations {
            if self.since.len() >= MOST_DESTINATIONS {
                self.since.clear();
            }
            self.since.entry(destination).or_insert(now);
        }
    }

    /// Whether no destination is silent.
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    /// Since when the destination is silent; `None`: it is not.
    pub(super) fn since(&self, destination: DestinationHash) -> Option<Instant> {
        self.since.get(&destination).copied()
    }

    /// Whether a message to this silent destination may leave on a side channel now.
    pub(super) fn may_try(&self, destination: DestinationHash) -> bool {
        self.trials.len() < self.side_channels && self.trials.iter().all(|trial| trial.destination != destination)
    }

    /// A message to this silent destination leaves on a side channel.
    pub(super) fn tries(&mut self, id: Uuid, destination: DestinationHash, now: Instant) {
        self.trials.push(Trial { id, destination, began: now });
    }

    /// Whether the message is on a side channel.
    pub(super) fn is_trial(&self, id: &Uuid) -> bool {
        self.trials.iter().any(|trial| trial.id == *id)
    }

    /// Number of messages on side channels.
    pub(super) fn trials(&self) -> usize {
        self.trials.len()
    }

    /// The message has an answer. Returns its trial; `None`: it was not on a side channel.
    pub(super) fn answered(&mut self, id: &Uuid) -> Option<Trial> {
        let place = self.trials.iter().position(|trial| trial.id == *id)?;
        Some(self.trials.swap_remove(place))
    }

    /// Whether the message has been unanswered for `silent_after`.
    pub(super) fn is_late(&self, trial: &Trial, now: Instant) -> bool {
        now >= self.is_late_at(trial)
    }

    /// Whether the message is on a side channel and late.
    pub(super) fn is_late_trial(&self, id: &Uuid, now: Instant) -> bool {
        self.trials.iter().any(|trial| trial.id == *id && self.is_late(trial, now))
    }

    /// How many messages on side channels are not late, and when the first of them will be.
    pub(super) fn not_late(&self, now: Instant) -> (usize, Option<Instant>) {
        let not_late = self.trials.iter().filter(|trial| !self.is_late(trial, now));
        (not_late.clone().count(), not_late.map(|trial| self.is_late_at(trial)).min())
    }

    /// The messages on side channels that are late.
    pub(super) fn late(&self, now: Instant) -> impl Iterator<Item = &Uuid> {
        self.trials.iter().filter(move |trial| self.is_late(trial, now)).map(|trial| &trial.id)
    }

    /// The destination has answered, so it is no longer silent.
    pub(super) fn ended(&mut self, destination: DestinationHash) {
        self.since.remove(&destination);
    }

    /// A connection has opened with this many side channels. With 0, one message at a time still counts as a trial, and
    /// leaves on the main channel.
    pub(crate) fn connected(&mut self, side_channels: usize) {
        self.side_channels = side_channels.clamp(1, SIDE_CHANNELS);
    }

    /// The connection is lost.
    pub(super) fn lost(&mut self) {
        self.trials.clear();
        self.rest();
    }

    fn is_late_at(&self, trial: &Trial) -> Instant {
        trial.began + self.pause * LOOKS as u32
    }
}
