//! Which events the broker may have without a verdict in the table, so that no event is delivered twice.
//!
//! A session that begins reads what was published since a little before the last verdict. So an event whose verdict is
//! missing for longer is kept in the table before newer verdicts are written.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Duration};

use uuid::Uuid;

use super::Floor;
use crate::{
    faults::{self, Fault},
    interface::{Doubts, Event, IdHash, InDoubt, Limits, Outcome, Start, Status, Verdict},
};

/// Most by which the clocks of relay, broker and database differ, with the time that a statement takes.
const CLOCKS: Duration = Duration::from_secs(2);
/// Most unsettled events that are told apart, in some 10 MB. Beyond that they count as the oldest of them, and none is
/// kept in the table.
const MOST_UNSETTLED: usize = 100_000;
/// An event is kept in the table after one part in this many of the time that a session reads back. A look for such
/// events comes as often, so half of that time is left for the statements.
const PARTS: u32 = 4;

/// What is known of events that the broker may have.
#[derive(Clone, Debug)]
pub(crate) struct ReadBack {
    /// Whether the sink can read back. Otherwise nothing is remembered.
    is_possible: bool,
    /// The age from which on an event without a verdict is kept in the table, in microseconds.
    keep_after_us: i64,
    /// The time from which the next read begins; `None`: no read is due.
    due: Option<Since>,
    /// The time from which the session's first read begins.
    first: Since,
    /// When the session first handed an event over; `None`: it has not.
    began_us: Option<i64>,
    /// What earlier sessions have kept, until it is handed over.
    earlier: HashMap<Uuid, InDoubt, IdHash>,
    /// Events that were handed over, until their verdicts are written or the broker has refused them. One that goes
    /// back to the table stays here if the broker may have it.
    unsettled: HashMap<Uuid, HandedOver, IdHash>,
    /// The earliest time of those that were too many to be told apart.
    oldest_us: Option<i64>,
    /// No look for old events comes before this time.
    next_look_us: i64,
    pub(crate) floor: Floor,
}

/// The beginning of a read, by the clock on the wall; `None`: as far back as the sink can.
type Since = Option<i64>;

#[derive(Clone, Copy, Debug)]
struct HandedOver {
    replays: u32,
    /// The earliest time at which the broker may have got it.
    since_us: i64,
    /// When it is old enough to be kept in the table.
    keep_at_us: i64,
    /// When it was first handed over since the sink last read back; `None`: it was not, or the broker has confirmed it.
    unanswered_us: Option<i64>,
    is_delivered: bool,
    /// What is kept in the table: whether it says that the event is delivered.
    kept: Option<bool>,
}

crate::marked!(ReadBack { due, first, earlier, unsettled, floor } not { is_possible, keep_after_us, began_us, oldest_us, next_look_us });
crate::marked!(HandedOver { replays, since_us, keep_at_us, unanswered_us, is_delivered, kept });

impl ReadBack {
    /// A session begins with a read, because only the broker knows what earlier sessions have handed over. An event
    /// that they did not settle was handed over at most `confirm_timeout` before the newest verdict, or they have kept
    /// it in the table.
    pub(crate) fn new(start: &Start, confirm_timeout: Duration, limits: Limits) -> Self {
        let slack = if faults::is_on(Fault::ReadBackTooLate) { 0 } else { micros(confirm_timeout + CLOCKS) };
        let is_possible = start.abilities.reads_back;
        let first = start.last_settled_us.map(|settled| settled.saturating_sub(slack));
        let earlier = start.in_doubt.iter().filter(|_| is_possible).map(|in_doubt| (in_doubt.id, *in_doubt));
        Self {
            is_possible,
            keep_after_us: micros((confirm_timeout + CLOCKS) / PARTS),
            due: is_possible.then_some(first),
            first,
            began_us: None,
            earlier: earlier.collect(),
            unsettled: HashMap::default(),
            oldest_us: None,
            next_look_us: 0,
            // What an earlier session had in memory, and as much again.
            floor: Floor::new(is_possible.then(|| start.last_settled_us.unwrap_or(0)), 2 * limits.max_events),
        }
    }

    /// Takes out the events that an earlier session knew to be delivered.
    pub(crate) fn take_delivered<E: AsRef<Event>>(&self, events: &mut Vec<E>) -> Vec<Uuid> {
        let is_delivered = |event: &Event| {
            self.earlier.get(&event.id).is_some_and(|kept| kept.is_delivered && kept.replays == event.replays)
        };
        if self.earlier.is_empty() {
            return Vec::new();
        }
        events.extract_if(.., |event| is_delivered((*event).as_ref())).map(|event| event.as_ref().id).collect()
    }

    /// These events are handed to the sink.
    pub(crate) fn handed_over<'a>(&mut self, events: impl Iterator<Item = &'a Event>, now_us: i64) {
        if !self.is_possible {
            return;
        }
        self.began_us.get_or_insert(now_us);
        let before = self.unsettled.len();
        for event in events {
            self.unsettled(event, now_us).unanswered_us.get_or_insert(now_us);
        }
        self.floor.handed_over(self.unsettled.len() - before);
        if self.unsettled.len() > MOST_UNSETTLED {
            self.oldest_us = self.earliest();
            self.unsettled.clear();
        }
    }

    /// The event goes back to the table without an answer. This session may have handed it over, or an earlier one.
    pub(crate) fn put_off(&mut self, event: &Event, now_us: i64) {
        if self.is_possible && (self.floor.wanted().is_some() || self.unsettled.contains_key(&event.id)) {
            self.unsettled(event, now_us).keep_at_us = 0;
            self.next_look_us = 0;
        }
    }

    /// The entry of an event that the broker may have.
    fn unsettled(&mut self, event: &Event, now_us: i64) -> &mut HandedOver {
        let Event { id, replays, created_at_us, .. } = event;
        let is_new = self.began_us.is_some_and(|began_us| *created_at_us > began_us.saturating_add(micros(CLOCKS)));
        let mut handed_over = HandedOver {
            replays: *replays,
            // An earlier session may have handed it over, unless it was emitted since this one began.
            since_us: if is_new { now_us } else { self.first.unwrap_or(0).min(now_us) },
            keep_at_us: now_us.saturating_add(self.keep_after_us),
            unanswered_us: None,
            is_delivered: false,
            kept: None,
        };
        if let Some(kept) = self.earlier.remove(id).filter(|kept| kept.replays == *replays) {
            (handed_over.since_us, handed_over.kept) = (kept.since_us, Some(false));
        }
        let entry = self.unsettled.entry(*id).or_insert(handed_over);
        if entry.replays != *replays {
            *entry = handed_over;
        }
        entry
    }

    /// The broker has said what became of the event, or the sink cannot tell.
    pub(crate) fn answered(&mut self, id: &Uuid, outcome: &Outcome) {
        if !self.is_possible {
            return;
        }
        let Some(event) = self.unsettled.get_mut(id) else { return };
        match outcome {
            Outcome::Delivered => (event.unanswered_us, event.is_delivered) = (None, true),
            // The next verdict lets the next session read from later on, so this event is kept at once.
            Outcome::Found => {
                (event.unanswered_us, event.is_delivered, event.keep_at_us) = (None, true, 0);
                self.next_look_us = 0;
            }
            Outcome::Unread { .. } => {
                event.keep_at_us = 0;
                self.next_look_us = 0;
            }
            Outcome::Rejected(_) | Outcome::Retry(_) | Outcome::Unavailable(_) | Outcome::Behind => {
                self.unsettled.remove(id);
            }
        }
    }

    /// The verdict is in the table, or the row is gone.
    pub(crate) fn settled(&mut self, verdict: &Verdict, gone: bool) {
        self.floor.settled(&verdict.id);
        if self.is_possible && (gone || verdict.status != Status::Pending) {
            self.unsettled.remove(&verdict.id);
            self.earlier.remove(&verdict.id);
        }
    }

    /// What the table is to keep now, with at most this many events; `None`: nothing has changed.
    pub(crate) fn doubts(&mut self, most: usize, now_us: i64) -> Option<Doubts> {
        if self.began_us.is_none() || now_us < self.next_look_us {
            return None;
        }
        let events = if faults::is_on(Fault::DoubtForgotten) { Vec::new() } else { self.take_old(most, now_us) };
        let last_settled_us = self.floor.wanted();
        let is_changed = self.floor.is_changed() || !events.is_empty();
        is_changed.then_some(Doubts { events, last_settled_us })
    }

    fn take_old(&mut self, most: usize, now_us: i64) -> Vec<InDoubt> {
        let is_old = |event: &HandedOver| event.keep_at_us <= now_us && event.kept != Some(event.is_delivered);
        let old = self.unsettled.iter().filter(|(_, event)| is_old(event)).take(most);
        let in_doubt = |(id, event): (&Uuid, &HandedOver)| InDoubt {
            id: *id,
            replays: event.replays,
            since_us: event.since_us,
            is_delivered: event.is_delivered,
        };
        self.next_look_us = now_us + self.keep_after_us;
        old.map(in_doubt).collect()
    }

    /// The table keeps this. There may be more.
    pub(crate) fn kept(&mut self, doubts: &Doubts) {
        self.next_look_us = 0;
        self.floor.kept(doubts.last_settled_us);
        for InDoubt { id, replays, is_delivered, .. } in &doubts.events {
            if let Some(event) = self.unsettled.get_mut(id).filter(|event| event.replays == *replays) {
                event.kept = Some(*is_delivered);
            }
        }
    }

    /// The broker no longer knows the sink. What was read before stays known to the sink, so only events count that
    /// were handed over since.
    pub(crate) fn lost_identity(&mut self) {
        if self.is_possible && self.due.is_none() && !faults::is_on(Fault::IdentityTrusted) {
            self.due = self.earliest().map(|earliest| Some(earliest.saturating_sub(micros(CLOCKS))));
        }
    }

    /// Takes the beginning of the read that is due, with events that need an earlier one; `None`: none is due.
    pub(crate) fn take(&mut self) -> Option<(Since, Vec<(Uuid, i64)>)> {
        let since = self.due.take()?;
        self.unsettled.values_mut().for_each(|event| event.unanswered_us = None);
        self.oldest_us = None;
        let in_doubt = self.earlier.values().filter(|kept| !kept.is_delivered);
        Some((since, in_doubt.map(|kept| (kept.id, kept.since_us.saturating_sub(micros(CLOCKS)))).collect()))
    }

    fn earliest(&self) -> Option<i64> {
        self.unsettled.values().filter_map(|event| event.unanswered_us).chain(self.oldest_us).min()
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
