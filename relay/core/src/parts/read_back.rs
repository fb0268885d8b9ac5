//! Which events the broker may have without a verdict in the table, so that no event is delivered twice.
//!
//! A session that begins reads what was published since a little before the last verdict. So an event whose verdict is
//! missing for longer is kept in the table before newer verdicts are written.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::Floor;
use crate::{
    faults::{self, Fault},
    interface::{Doubts, Event, IdHash, InDoubt, Now, Older, Outcome, Start, Status, Verdict},
};

/// Most by which the clocks of relay, broker and database differ.
const CLOCKS: Duration = Duration::from_secs(2);
/// Least time that the statements have which keep late events, however short `confirm_timeout` is.
const LEAST: Duration = Duration::from_secs(5);
/// Most unsettled events that are told apart, in some 10 MB. Beyond that they count as the oldest of them, and are not
/// kept in the table.
const MOST_UNSETTLED: usize = 100_000;
/// Pause before the table is asked again to keep the floor, without which no verdict is written.
const PAUSE: Duration = Duration::from_millis(100);
/// An event is kept in the table after one part in this many of the time that a session reads back. A look for such
/// events comes as often, so half of that time is left for the statements.
const PARTS: u32 = 4;

/// What is known of events that the broker may have.
#[derive(Clone, Debug)]
pub(crate) struct ReadBack {
    /// Whether the sink can read back. Otherwise nothing is remembered.
    is_possible: bool,
    /// The age from which on an event without a verdict is kept in the table.
    keep_after: Duration,
    /// The time from which the next read begins; `None`: no read is due.
    due: Option<Since>,
    /// What an earlier session has kept of all events before; `None`: nothing.
    older_us: Option<i64>,
    /// The earliest time from which the session reads.
    first_us: i64,
    /// When the session first handed an event over, by the clock on the wall; `None`: it has not.
    began_us: Option<i64>,
    /// Events that earlier sessions have kept, until they are handed over.
    earlier: HashMap<Uuid, InDoubt, IdHash>,
    /// Events that were handed over, until their verdicts are written or the broker has refused them. One that goes
    /// back to the table stays here if the broker may have it.
    unsettled: HashMap<Uuid, HandedOver, IdHash>,
    /// Whether the table keeps events that have their verdicts. The next statement forgets them.
    has_stale: bool,
    /// The earliest time of those that were too many to be told apart.
    oldest_us: Option<i64>,
    /// No look for old events comes before this time.
    next_look: Instant,
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
    keep_at: Instant,
    /// When it was first handed over since the sink last read back; `None`: it was not, or the broker has confirmed it.
    unanswered_us: Option<i64>,
    is_delivered: bool,
    /// What is kept in the table: whether it says that the event is delivered.
    kept: Option<bool>,
}

crate::marked!(ReadBack { due, older_us, first_us, earlier, unsettled, has_stale, next_look, floor } not {
    is_possible, keep_after, began_us, oldest_us
});
crate::marked!(HandedOver { replays, since_us, keep_at, unanswered_us, is_delivered, kept });

impl ReadBack {
    /// A session begins with a read, because only the broker knows what earlier sessions have handed over. An event
    /// that they did not settle was handed over shortly before the newest verdict, or they have kept it in the table.
    pub(crate) fn new(start: &Start, confirm_timeout: Duration, now: Instant) -> Self {
        let slack = slack(confirm_timeout);
        let slack_us = if faults::is_on(Fault::ReadBackTooLate) { 0 } else { micros(slack) };
        let is_possible = start.abilities.reads_back;
        let before = |settled_us: i64| settled_us.saturating_sub(slack_us);
        let floor_us = start.floor_us.into_iter().chain([start.last_settled_us.unwrap_or_default()]).min();
        let earlier = start.in_doubt.iter().filter(|_| is_possible).map(|in_doubt| (in_doubt.id, *in_doubt));
        Self {
            is_possible,
            keep_after: slack / PARTS,
            due: is_possible.then(|| start.last_settled_us.map(before)),
            older_us: start.floor_us.map(before),
            first_us: floor_us.map(before).unwrap_or_default(),
            began_us: None,
            earlier: earlier.collect(),
            unsettled: HashMap::default(),
            has_stale: false,
            oldest_us: None,
            next_look: now,
            floor: Floor::new(floor_us.filter(|_| is_possible)),
        }
    }

    /// Takes out the events that an earlier session knew to be delivered.
    pub(crate) fn take_delivered<E: AsRef<Event>>(&self, events: &mut Vec<E>) -> Vec<Uuid> {
        if self.earlier.is_empty() {
            return Vec::new();
        }
        let is_delivered = |event: &mut E| self.was_delivered((*event).as_ref());
        events.extract_if(.., is_delivered).map(|event| event.as_ref().id).collect()
    }

    /// These events are handed to the sink.
    pub(crate) fn handed_over<'a>(&mut self, events: impl Iterator<Item = &'a Event>, now: Now) {
        if !self.is_possible {
            return;
        }
        self.began_us.get_or_insert(now.unix_us);
        for event in events {
            self.entry(event, now).unanswered_us.get_or_insert(now.unix_us);
        }
        self.bound();
    }

    /// The event goes back to the table without an answer. This session may have handed it over, or an earlier one.
    pub(crate) fn put_off(&mut self, event: &Event, now: Now) {
        if self.unsettled.contains_key(&event.id) {
            self.keep(event, now);
        } else if self.floor.wanted().is_some() {
            self.keep_if_earlier(event, now);
        }
    }

    /// The event is kept in the table at once if an earlier session may have handed it over.
    pub(crate) fn keep_if_earlier(&mut self, event: &Event, now: Now) {
        if !self.is_new(event) {
            self.keep(event, now);
        }
    }

    fn keep(&mut self, event: &Event, now: Now) {
        if self.is_possible && !self.was_delivered(event) {
            self.entry(event, now).keep_at = now.instant;
            self.next_look = now.instant;
            self.bound();
        }
    }

    /// The broker has said what became of the event, or the sink cannot tell.
    pub(crate) fn answered(&mut self, id: &Uuid, outcome: &Outcome, now: Instant) {
        let Some(event) = self.unsettled.get_mut(id) else { return };
        match outcome {
            Outcome::Delivered => (event.unanswered_us, event.is_delivered) = (None, true),
            // The next verdict lets the next session read from later on, so this event is kept at once.
            Outcome::Found => {
                (event.unanswered_us, event.is_delivered, event.keep_at) = (None, true, now);
                self.next_look = now;
            }
            Outcome::Unread { .. } => (event.keep_at, self.next_look) = (now, now),
            Outcome::Rejected(_) | Outcome::Retry(_) | Outcome::Unavailable(_) | Outcome::Behind => {
                self.unsettled.remove(id);
            }
        }
    }

    /// The verdict is in the table, or the row is gone.
    pub(crate) fn settled(&mut self, verdict: &Verdict, gone: bool) {
        self.floor.settled(&verdict.id);
        if self.is_possible && (gone || verdict.status != Status::Pending) {
            let was_kept = self.unsettled.remove(&verdict.id).is_some_and(|event| event.kept.is_some());
            self.has_stale |= self.earlier.remove(&verdict.id).is_some() || was_kept;
        }
    }

    /// What the table is to keep now, with at most this many events; `None`: nothing has changed.
    pub(crate) fn doubts(&mut self, most: usize, now: Instant) -> Option<Doubts> {
        if self.began_us.is_none() || now < self.next_look {
            return None;
        }
        self.next_look = now + self.keep_after;
        let events = if faults::is_on(Fault::DoubtForgotten) { Vec::new() } else { self.old(most, now) };
        let is_changed = self.floor.is_changed() || self.has_stale || !events.is_empty();
        let is_last = events.len() < most;
        let floor_us = self.floor.wanted().or_else(|| self.floor.present().filter(|_| !is_last));
        is_changed.then_some(Doubts { events, floor_us })
    }

    /// When [`doubts`](Self::doubts) is to be asked without an input; `None`: nothing waits for that.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.holds_verdicts().then_some(self.next_look)
    }

    /// Whether no verdict may be written, because the next session would not read as far back as it must.
    pub(crate) fn holds_verdicts(&self) -> bool {
        self.began_us.is_some() && self.floor.is_missing()
    }

    /// The table keeps this. There may be more.
    pub(crate) fn kept(&mut self, doubts: &Doubts, now: Instant) {
        self.next_look = now;
        self.has_stale = false;
        self.floor.kept(doubts.floor_us);
        for InDoubt { id, replays, is_delivered, .. } in &doubts.events {
            if let Some(event) = self.unsettled.get_mut(id).filter(|event| event.replays == *replays) {
                event.kept = Some(*is_delivered);
            }
        }
    }

    /// The table could not keep that. Returns whether verdicts go on without.
    pub(crate) fn not_kept(&mut self, is_transient: bool, now: Instant) -> bool {
        if is_transient && self.floor.is_missing() {
            self.next_look = now + PAUSE;
            return false;
        }
        if self.floor.is_missing() {
            self.floor.give_up();
        }
        true
    }

    /// The broker no longer knows the sink. What was read before stays known to the sink, so only events count that
    /// were handed over since.
    pub(crate) fn lost_identity(&mut self) {
        if self.is_possible && self.due.is_none() && !faults::is_on(Fault::IdentityTrusted) {
            self.due = self.earliest().map(|earliest| Some(earliest.saturating_sub(micros(CLOCKS))));
        }
    }

    /// Takes the beginning of the read that is due, with what is older; `None`: none is due.
    pub(crate) fn take(&mut self) -> Option<(Since, Older)> {
        let since = self.due.take()?;
        self.unsettled.values_mut().for_each(|event| event.unanswered_us = None);
        self.oldest_us = None;
        let in_doubt = self.earlier.values().filter(|kept| !kept.is_delivered);
        let in_doubt = in_doubt.map(|kept| (kept.id, kept.since_us.saturating_sub(micros(CLOCKS)))).collect();
        Some((since, Older { since_us: self.older_us.take(), in_doubt }))
    }

    /// The entry of an event that the broker may have.
    fn entry(&mut self, event: &Event, now: Now) -> &mut HandedOver {
        let mut handed_over = HandedOver {
            replays: event.replays,
            since_us: if self.is_new(event) { now.unix_us } else { self.first_us.min(now.unix_us) },
            keep_at: now.instant + self.keep_after,
            unanswered_us: None,
            is_delivered: false,
            kept: None,
        };
        if let Some(kept) = self.earlier.remove(&event.id).filter(|kept| kept.replays == event.replays) {
            (handed_over.since_us, handed_over.kept) = (kept.since_us, Some(false));
        }
        let entry = self.unsettled.entry(event.id).or_insert(handed_over);
        if entry.replays != event.replays {
            *entry = handed_over;
        }
        entry
    }

    /// Whether the event was emitted since the session began, so that no earlier one has handed it over.
    fn is_new(&self, event: &Event) -> bool {
        self.began_us.is_some_and(|began_us| event.created_at_us > began_us.saturating_add(micros(CLOCKS)))
    }

    fn was_delivered(&self, event: &Event) -> bool {
        self.earlier.get(&event.id).is_some_and(|kept| kept.is_delivered && kept.replays == event.replays)
    }

    /// Forgets events if they are too many: first those that the table keeps.
    fn bound(&mut self) {
        if self.unsettled.len() > MOST_UNSETTLED {
            self.unsettled.retain(|_, event| event.kept != Some(event.is_delivered) || event.unanswered_us.is_some());
        }
        if self.unsettled.len() > MOST_UNSETTLED {
            self.oldest_us = self.earliest();
            self.unsettled.clear();
        }
    }

    fn old(&self, most: usize, now: Instant) -> Vec<InDoubt> {
        let is_old = |event: &HandedOver| event.keep_at <= now && event.kept != Some(event.is_delivered);
        let old = self.unsettled.iter().filter(|(_, event)| is_old(event)).take(most);
        let in_doubt = |(id, event): (&Uuid, &HandedOver)| InDoubt {
            id: *id,
            replays: event.replays,
            since_us: event.since_us,
            is_delivered: event.is_delivered,
        };
        old.map(in_doubt).collect()
    }

    fn earliest(&self) -> Option<i64> {
        self.unsettled.values().filter_map(|event| event.unanswered_us).chain(self.oldest_us).min()
    }
}

/// By how much a session reads back behind the last verdict.
fn slack(confirm_timeout: Duration) -> Duration {
    confirm_timeout.max(LEAST) + CLOCKS
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
