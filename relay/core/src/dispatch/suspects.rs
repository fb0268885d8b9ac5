//! Which message may have ended the connection, and how that is found out. Pure: time is an argument.
//!
//! RabbitMQ ends a connection over a message that it cannot read, or that makes it fail inside, and does not say which
//! message that was. A proxy says even less, and lines also break by themselves. So:
//!
//! ```text
//! in flight ──connection ended twice──▶ suspect: leaves alone ──any answer──▶ as any other
//!                                        ▲          │ connection ended
//!               0.25 s, then doubling ──┘          ▼
//!                                    waits in the table ──evidence is CONCLUSIVE──▶ FAILED
//! ```
//!
//! No attempt counts on the way. Each ending over one event alone is evidence against it, if since the previous ending
//!
//! - the broker has confirmed another event, or
//! - it has returned the sink's own message ([`Notice::Ready`](crate::Notice::Ready)), and has confirmed some event
//!   since this one became a suspect. Without such a confirm the ending weighs half, if no other event ends
//!   connections.
//!
//! The likelier the line was to break by itself while the event was in flight, the less the ending weighs
//! ([`Breaks::evidence`]). It weighs nothing if the broker stopped, an operator closed the connection, or nothing was
//! heard. So a line that breaks again and again fails no event, since it also breaks while the event is not in flight;
//! nor does a broker that takes no event at all.
//!
//! Most endings follow at once. So a suspect that has no answer and ends nothing for [`FIRST_PATIENCE`] is a suspect no
//! more, and others leave, but for those of its key: its destination may be silent. If the connection ends while it is
//! still in flight, it leaves alone again, and others wait four times as long.
//!
//! Between two endings other events leave: for [`REST`] no event does that has ended a connection, unless no other can.

mod breaks;
mod leaving;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use uuid::Uuid;

use self::breaks::Breaks;
use super::{Dispatch, State};
use crate::{
    faults::{self, Fault},
    interface::{Event, IdHash, Status, Verdict},
};

/// An event leaves alone once it was in flight at this many endings of a connection.
const SUSPECT_AFTER: u8 = 2;
/// With evidence of this weight, and no answer about it, the event is the reason. That takes four endings, or seven if
/// only the sink's own message has shown that the broker takes others, and more on a line that breaks often.
const CONCLUSIVE: f64 = 4.0;
/// Weight of an ending if only the sink's own message has shown that the broker takes others.
const WEAK: f64 = 0.5;
/// Weight of an ending if, since the one before, the connection has also broken without the event or could not be made.
const TROUBLED: f64 = 0.5;
/// After an ending over one event alone, only events that have ended no connection leave for this time.
const REST: Duration = Duration::from_secs(1);
/// Pause after the first ending over one event alone; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How long others wait at first for a suspect that has no answer and ends nothing. The time quadruples up to
/// [`LONGEST_PATIENCE`].
const FIRST_PATIENCE: Duration = Duration::from_millis(250);
/// The least such time for an event that has already ended a connection alone.
const ENDERS_PATIENCE: Duration = Duration::from_secs(4);
const LONGEST_PATIENCE: Duration = Duration::from_secs(16);
/// Most events that are remembered to have ended a connection alone, in some 100 kB. Beyond that all are forgotten.
const MOST_ENDERS: usize = 1024;

/// How a connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss<'a> {
    /// No message caused it.
    Outage,
    /// A message in flight may have caused it. The text is the reason that the broker, or the network, gave.
    MaybeMessage(&'a str),
}

/// The event that was alone in flight when the connection ended, and its verdict.
#[derive(Debug)]
pub(crate) struct Alone {
    pub(crate) event: Arc<Event>,
    pub(crate) verdict: Verdict,
    /// How often the connection has ended over this event alone.
    pub(crate) times: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Suspects {
    /// The number of the last message that was published before the present suspects became suspects.
    began: u64,
    /// How many suspects are in memory and unanswered.
    here: usize,
    /// The suspect in flight. Only late trials and `outlasted` events are in flight at the same time.
    alone: Option<Uuid>,
    /// Events in flight that have outlasted their time as suspects.
    pub(super) outlasted: HashSet<Uuid, IdHash>,
    /// How often each unanswered event has outlasted its time.
    slow: HashMap<Uuid, u32, IdHash>,
    /// Unanswered events that were alone in flight when a connection ended.
    enders: HashMap<Uuid, Ender, IdHash>,
    /// Endings over no event in `enders`.
    breaks: Breaks,
    /// When the suspect in flight left.
    left_at: Option<Instant>,
    /// Whether an event has ended the connection alone, and no other connection is open yet.
    is_rest_due: bool,
    /// The number of the last message that was published before this connection opened.
    connected_at: u64,
    /// Until when events in `enders` do not leave, if others can; `None`: they may leave.
    rests_until: Option<Instant>,
    /// Ready events in `enders` that rest, with their order of admission.
    pub(super) resting: Vec<(u64, Uuid)>,
    /// Whether the broker has returned the sink's own message over this connection before any event.
    is_proven: bool,
}

crate::marked!(Suspects {
    began as Message, here, alone, outlasted, slow, enders, breaks, left_at, is_rest_due, connected_at as Message,
    rests_until, resting as Order, is_proven
});

#[derive(Clone, Copy, Debug, Default)]
struct Ender {
    /// [`Suspects::began`] at the event's first ending.
    began: u64,
    /// How often the connection has ended over this event alone.
    times: u32,
    /// Sum of the weights of these endings.
    evidence: f64,
    /// The number of the last message that was published before the latest ending.
    published: u64,
    /// When the latest ending was; `None`: there was none.
    at: Option<Instant>,
}

crate::marked!(Ender { began as Message, times, evidence, published as Message, at });

impl Ender {
    fn pause(&self) -> Duration {
        FIRST_PAUSE.saturating_mul(1 << self.times.saturating_sub(1).min(10)).min(LONGEST_PAUSE)
    }
}

impl Suspects {
    /// The [`endings`](super::Tracked::endings) with which an event is admitted: it leaves alone if it has ended a
    /// connection alone.
    pub(super) fn admit(&mut self, id: &Uuid) -> u8 {
        if self.enders.is_empty() || !self.enders.contains_key(id) {
            return 0; // nearly always
        }
        self.here += 1;
        SUSPECT_AFTER
    }

    /// An event with this many endings has an answer, or leaves memory.
    pub(super) fn cleared(&mut self, id: &Uuid, endings: u8) {
        if endings >= SUSPECT_AFTER {
            self.here -= 1;
            self.alone.take_if(|alone| alone == id);
        }
    }

    /// The broker has answered about an event with this many endings.
    pub(super) fn answered(&mut self, id: &Uuid, endings: u8) {
        if endings == 0 && self.slow.is_empty() {
            return; // nearly always
        }
        self.cleared(id, endings);
        self.enders.remove(id);
        self.slow.remove(id);
        self.outlasted.remove(id);
    }

    /// Whether a suspect is in flight, so that others wait.
    pub(super) fn is_one_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// How long others wait for this suspect.
    fn patience(&self, id: &Uuid) -> Duration {
        let times = self.slow.get(id).copied().unwrap_or(0).min(3);
        let least = if self.enders.contains_key(id) { ENDERS_PATIENCE } else { Duration::ZERO };
        (FIRST_PATIENCE * 4_u32.pow(times)).clamp(least, LONGEST_PATIENCE)
    }

    /// Until when others wait for the suspect in flight; `None`: no suspect is in flight.
    fn alone_until(&self) -> Option<Instant> {
        Some(self.left_at? + self.patience(self.alone.as_ref()?))
    }

    /// Others no longer wait for the suspect in flight, which has this many endings.
    fn outlasts(&mut self, id: Uuid, endings: u8) {
        self.cleared(&id, endings);
        if self.slow.len() >= MOST_ENDERS {
            self.slow.clear();
        }
        *self.slow.entry(id).or_default() += 1;
        self.outlasted.insert(id);
    }

    /// A connection has opened.
    fn connected(&mut self, is_proven: bool, published: u64, now: Instant) {
        (self.is_proven, self.connected_at) = (is_proven, published);
        if std::mem::take(&mut self.is_rest_due) {
            self.rests_until = Some(now + REST);
        }
    }

    /// When events may leave that wait for a suspect, or that rest; `None`: none do.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let rest = self.rests_until.filter(|_| !self.resting.is_empty());
        rest.into_iter().chain(self.alone_until()).min()
    }

    /// The relay itself ends the connection, so no message is the reason.
    pub(super) fn interrupted(&mut self) {
        self.alone = None;
    }

    /// A connection has ended or could not be made, and no suspect was alone in flight.
    fn note_break(&mut self, now: Instant) {
        self.breaks.note(now);
        self.is_proven = false;
    }

    /// The connection ended while this event alone was in flight. `published`: the number of the last message that was
    /// published; `confirmed`: the highest that was confirmed.
    fn ended(&mut self, id: Uuid, loss: Loss<'_>, published: u64, confirmed: u64, now: Instant) -> Ender {
        if self.enders.len() >= MOST_ENDERS && !self.enders.contains_key(&id) {
            self.enders.clear();
        }
        let is_only = self.enders.keys().all(|known| *known == id);
        let (ender, is_new) = match self.enders.entry(id) {
            Entry::Occupied(known) => (known.into_mut(), false),
            Entry::Vacant(new) => (new.insert(Ender { began: self.began, ..Ender::default() }), true),
        };
        let is_sure = is_new || confirmed > ender.published || self.is_proven && confirmed > ender.began;
        let shown = if is_sure { 1.0 } else { WEAK * f64::from(self.is_proven && is_only) };
        let is_in_trouble = ender.at.is_some_and(|at| self.breaks.any_since(at));
        let shown = if is_in_trouble { shown * TROUBLED } else { shown };
        let on_its_way = self.left_at.map_or(Duration::MAX, |left_at| now.duration_since(left_at));
        let weight = if loss == Loss::Outage { 0.0 } else { shown * self.breaks.evidence(on_its_way, now) };
        if is_new || loss == Loss::Outage {
            self.breaks.note(now);
        }
        (self.is_proven, self.is_rest_due) = (false, true);
        *ender =
            Ender { times: ender.times + 1, evidence: ender.evidence + weight, published, at: Some(now), ..*ender };
        *ender
    }
}

impl Dispatch {
    /// The connection is lost, or could not be made. Events in flight leave again first, in their old order, and no
    /// attempt counts. A suspect that was alone in flight is returned: it waits in the table, or has `FAILED`.
    pub(crate) fn lost(&mut self, loss: Loss<'_>, now: Instant) -> Option<Alone> {
        let alone = self.suspects.alone.take().and_then(|id| self.ended_alone(id, loss, now));
        if alone.is_none() {
            self.suspects.note_break(now);
            if loss != Loss::Outage && !faults::is_on(Fault::EnderUnknown) {
                self.suspect_in_flight(now);
            }
        }
        let suspects = || self.tracked.values().filter(|tracked| tracked.endings >= SUSPECT_AFTER).count();
        debug_assert_eq!(self.suspects.here, suspects(), "each suspect counts once");
        self.outage();
        alone
    }

    /// A connection has opened. `is_proven`: the broker has already returned the sink's own message over it.
    pub(crate) fn connected(&mut self, is_proven: bool, now: Instant) {
        self.suspects.connected(is_proven, self.availability.published(), now);
    }

    /// Counts an ending against each event in flight, except late ones of silent destinations: they would have ended
    /// the connection before.
    fn suspect_in_flight(&mut self, now: Instant) {
        if self.suspects.here == 0 {
            self.suspects.began = self.availability.published();
        }
        for (id, tracked) in &mut self.tracked {
            if tracked.state != State::InFlight || self.silences.is_late_trial(id, now) {
                continue;
            }
            let was_suspect = self.suspects.outlasted.contains(id);
            tracked.endings = if was_suspect { SUSPECT_AFTER } else { tracked.endings + 1 };
            self.suspects.here += usize::from(tracked.endings == SUSPECT_AFTER);
        }
    }

    fn ended_alone(&mut self, id: Uuid, loss: Loss<'_>, now: Instant) -> Option<Alone> {
        let tracked = self.tracked.get_mut(&id).filter(|tracked| tracked.state == State::InFlight)?;
        let event = tracked.event.take()?;
        self.in_flight -= 1;
        self.suspects.cleared(&id, std::mem::take(&mut tracked.endings));
        let (published, confirmed) = (self.availability.published(), self.availability.last_confirmed());
        let ender = self.suspects.ended(id, loss, published, confirmed, now);
        let error = match loss {
            Loss::MaybeMessage(reason) if ender.evidence >= CONCLUSIVE || faults::is_on(Fault::EndingFails) => {
                self.suspects.enders.remove(&id); // a replay begins anew
                Some(format!("the connection ended each time that only this event was on its way: {reason}"))
            }
            Loss::MaybeMessage(_) | Loss::Outage => None,
        };
        let status = if error.is_some() { Status::Failed } else { Status::Pending };
        let landed = tracked.land(self.policy.holds(status));
        let (verdict, event) =
            self.decide(&id, event, landed, status, error, (status == Status::Pending).then(|| ender.pause()));
        Some(Alone { event, verdict, times: ender.times })
    }
}
