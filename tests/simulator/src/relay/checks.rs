//! The promises that need a look into a session: what it has in memory, what it publishes and acknowledges, and how
//! much WAL it pins.

use std::sync::Arc;

use outbox_core::{Event, Status};

use crate::{
    broker::{Queue, Sent, queue_of},
    checker::Promise,
    database::{Emitted, Entry, Micros, id_of},
    world::{World, micros},
};

/// Longest time that a commit may limit the acknowledged position.
const LIMITS_ACK_FOR: Micros = 10_000_000;
/// Longest time between two tries while every destination is unavailable: five seconds, and one for running operations.
const ASKS_WITHIN: Micros = 6_000_000;

impl World {
    /// The number of events in memory is bounded, and so is the number that a crash repeats.
    pub(super) fn check_bounds(&mut self, relay: usize) {
        let Some(session) = &self.relays[relay].session else { return };
        let (in_memory, unsettled) = (session.core.in_memory(), session.core.unsettled());
        let config = &self.knobs.config;
        if in_memory > config.limits.max_events + 1 {
            let most = config.limits.max_events;
            self.checker.fail(Promise::Memory, None, format!("{in_memory} events in memory, {most} are allowed"));
        }
        let allowed = config.in_flight + 2 * config.settle_batch + self.relays[relay].most_unwritten;
        if unsettled > allowed {
            self.checker.fail(
                Promise::Duplicates,
                None,
                format!("{unsettled} events unsettled, {allowed} are allowed"),
            );
        }
    }

    /// While every destination is unavailable, an event is tried again in time, if there is one to try.
    pub(super) fn check_tries(&mut self, relay: usize) {
        let (now, clocks) = (self.now, self.clocks());
        let Some(session) = &mut self.relays[relay].session else { return };
        let figures = session.core.figures(clocks.instant);
        let could_try = figures.unavailable_since.is_some() && figures.away_since.is_none() && !session.is_draining;
        if !could_try || figures.in_memory == 0 || session.core.unsettled() > 0 {
            session.tried_at = now;
        } else if now > session.tried_at + ASKS_WITHIN {
            let what = format!("of {} events in memory none has left for 6 s", figures.in_memory);
            self.checker.fail(Promise::AsksAgain, None, what);
        }
    }

    /// A queue that answers nothing does not stop the others for long.
    pub(super) fn check_goes_on(&mut self, relay: usize) {
        // The bound covers at most 17 looks, four of which make `silent_after`, some more until others count as
        // waiting, and the time that the relay was frozen.
        let bound = 6 * micros(self.knobs.config.silent_after) + 6_000_000;
        let (now, queues) = (self.now, self.broker.queues);
        let Some(session) = &mut self.relays[relay].session else { return };
        let open = session.connection.and_then(|connection| self.broker.connections.get(&connection));
        let takes = |sent: &Sent| queues[queue_of(&sent.event)] == Queue::Takes;
        let waits = open.is_some_and(|open| open.is_stuck && !open.is_blocked && open.on_the_way.iter().any(takes));
        if !waits || session.is_draining {
            session.delayed_since = None;
        } else if now > *session.delayed_since.get_or_insert(now) + bound {
            self.checker.fail(Promise::GoesOn, None, "a queue that answers nothing delays others");
        }
    }

    /// Only the relay that has the slot publishes, and not while it drains.
    pub(super) fn check_publishes(&mut self, relay: usize) {
        let Some(session) = &self.relays[relay].session else { return };
        let reader = self.db.slot.as_ref().and_then(|slot| slot.reader);
        if session.is_draining {
            self.checker.fail(Promise::OneRelay, None, "a relay that drains publishes more");
        }
        if reader.is_some_and(|reader| reader != session.id) {
            self.checker.fail(Promise::OneRelay, None, "a relay publishes that has lost its slot to another");
        }
    }

    /// No event is sent that is larger than the broker takes.
    pub(super) fn check_sizes<'a>(&mut self, events: impl Iterator<Item = &'a Arc<Event>>) {
        let Some(most) = self.knobs.abilities.largest_message else { return };
        for event in events.filter(|event| event.body.as_ref().is_ok_and(|body| body.len() > most)) {
            self.checker.fail(Promise::Sane, Some(event.seq), "it is sent, and larger than the broker takes");
        }
    }

    /// In a second no more events leave than the rate allows, plus the unused part of a tenth of a second before.
    pub(super) fn check_rate(&mut self, relay: usize, events: usize) {
        let now = self.now;
        let Some(rate) = self.knobs.config.max_rate else { return };
        let Some(session) = &mut self.relays[relay].session else { return };
        session.left_at.extend(std::iter::repeat_n(now, events));
        while session.left_at.front().is_some_and(|at| at + 1_000_000 <= now) {
            session.left_at.pop_front();
        }
        let (left, allowed) = (session.left_at.len(), rate.get() as usize * 11 / 10 + 2);
        if left > allowed {
            self.checker.fail(Promise::Rate, None, format!("{left} events left in a second, {allowed} are allowed"));
        }
    }

    /// No commit is acknowledged before it is visible. Events that were streamed to a live session must also be
    /// settled.
    pub(super) fn check_acknowledged(&mut self, relay: usize, position: u64) {
        let Some(session) = &self.relays[relay].session else { return };
        let was_read = self.db.wal.get(session.read_from..session.read_to).unwrap_or_default().iter().rev();
        let is_hidden = |entry: &&Entry| self.db.hidden.contains_key(&entry.xid) && entry.end <= position;
        let hidden = was_read.filter(is_hidden).flat_map(|entry| &entry.inserts).find(|emitted| emitted.is_published);
        if let Some(Emitted { seq, .. }) = hidden {
            let what = format!("position {position} is acknowledged, and nobody can see the commit");
            return self.checker.fail(Promise::Acknowledged, Some(*seq), what);
        }
        let Some(live_from) = session.live_from.filter(|_| session.core.is_live()) else {
            return;
        };
        let read = self.db.wal.get(live_from..session.read_to).unwrap_or_default();
        // A commit that has waited long for its events limits no position: they stand in the table.
        let is_recent = |entry: &&Entry| entry.end <= position && entry.at + LIMITS_ACK_FOR > self.now;
        let is_unsettled = |emitted: &&Emitted| {
            let is_pending = self.db.rows.get(&emitted.seq).is_some_and(|row| row.status == Status::Pending);
            let is_excused = self.checker.facts.get(&emitted.seq).is_some_and(|fact| fact.replays > 0);
            let is_here = session.core.knows(&id_of(emitted.seq)) && !session.from_table.contains(&emitted.seq);
            is_pending && !is_excused && is_here
        };
        let found = read.iter().filter(is_recent).flat_map(|entry| &entry.inserts).find(is_unsettled);
        if let Some(Emitted { seq, .. }) = found {
            let what = format!("position {position} is acknowledged, and the event has no verdict in the table");
            self.checker.fail(Promise::Acknowledged, Some(*seq), what);
        }
    }

    /// The slot moves on within a bounded time, even if the broker takes nothing.
    pub(super) fn check_wal(&mut self, relay: usize) {
        let Some(session) = &self.relays[relay].session else { return };
        // Two commits in a row can each limit the position for the longest time.
        let bound = micros(self.knobs.config.park_after) + 2 * LIMITS_ACK_FOR + 5_000_000;
        let Some(long_ago) = self.now.checked_sub(bound).filter(|at| session.calm_since < *at) else { return };
        if !self.db.hidden.is_empty() || self.db.slot.as_ref().is_some_and(|slot| !slot.is_created) {
            return; // nothing is acknowledged before it is visible
        }
        let confirmed = self.db.slot.as_ref().map_or(0, |slot| slot.confirmed);
        let pinned = self.checker.pinned(confirmed, &self.db.wal, long_ago);
        if let Some(since) = pinned {
            let what =
                format!("the slot stands at {confirmed}, before a commit of {} s ago", (self.now - since) / 1_000_000);
            self.checker.fail(Promise::WalIsFreed, None, what);
        }
    }
}
