//! What an outcome means for its event and for later ones of its key: a verdict, and whether the key is held.

use std::{cmp::Reverse, collections::hash_map::Entry, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    Dispatch, State, Tracked,
    availability::{Attempt, Availability, LONGEST_PAUSE},
    budget::Budget,
    keys::KeyHash,
};
use crate::{
    faults::{self, Fault},
    interface::{Event, Now, Outcome, Policy, Status, Verdict},
    parts::Ticket,
};

/// An event that is no longer in flight, as far as its key needs to know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landed {
    key: Option<KeyHash>,
    /// The number of the message that the broker has answered; `None`: it has answered none.
    number: Option<u64>,
    was_holder: bool,
    holds_key: bool,
}

impl Tracked {
    /// The event is no longer in flight and has its verdict. `holds_key`: by that verdict it holds its key in the
    /// table.
    pub(super) fn land(&mut self, holds_key: bool) -> Landed {
        let landed = Landed { key: self.key, number: Some(self.number), was_holder: self.is_holder, holds_key };
        self.is_holder &= !holds_key;
        self.state = State::Settling;
        landed
    }
}

/// The delay before the next attempt of an event whose last attempt does not count. `lasted`: how long its destination,
/// or every destination, has taken nothing.
pub(super) fn outage_delay(policy: &Policy, budget: &Budget, lasted: Duration) -> Duration {
    // While memory has room, the event comes back after at most 5 s (`LONGEST_PAUSE`), or after `base` if that is
    // longer. In crowded memory an event that comes back soon would make no room.
    policy.backoff.outage_delay(if budget.is_crowded() { lasted } else { lasted.min(LONGEST_PAUSE) })
}

impl Dispatch {
    /// The event has this outcome. Returns its verdict; `None`: the event stays in memory to be tried again, or was not
    /// in flight, since the outcome is from an earlier connection.
    pub(crate) fn answered(&mut self, id: &Uuid, outcome: Outcome, now: Now) -> Option<(Verdict, Arc<Event>)> {
        let tracked = self.tracked.get_mut(id).filter(|tracked| tracked.state == State::InFlight)?;
        let outcome = match outcome {
            Outcome::Behind if faults::is_on(Fault::BehindDelivered) => Outcome::Delivered,
            Outcome::Unread { is_behind: true, .. } => Outcome::Behind,
            Outcome::Unread { is_behind: false, reason } => Outcome::Unavailable(reason),
            outcome => outcome,
        };
        let is_taken = matches!(outcome, Outcome::Delivered | Outcome::Found);
        if tracked.key.is_some_and(|key| self.keys.answered(key, is_taken)) {
            self.ready.extend(self.behind.drain(..).map(Reverse)); // all later events of the key have come back
        }
        if outcome == Outcome::Behind {
            self.came_back(id, now);
            return None;
        }
        let event = tracked.event.take()?;
        let attempts = tracked.attempts + 1;
        let trial = self.silences.answered(id);
        self.in_flight -= 1;
        self.suspects.answered(id, std::mem::take(&mut tracked.endings));
        let mut retry_in = None; // decided by the policy unless set below
        let is_late_nack = matches!(outcome, Outcome::Unavailable(_))
            && trial.is_some_and(|trial| self.silences.is_late(&trial, now.instant));
        if let Some(trial) = trial.filter(|_| !is_late_nack) {
            self.silences.ended(trial.destination);
        }
        let is_found = outcome == Outcome::Found;
        let (status, error) = match outcome {
            // A late nack: from RabbitMQ 4.0 on, a channel gives up after 65 s. The destination stays silent.
            Outcome::Unavailable(_) if is_late_nack => {
                let since = trial.and_then(|trial| self.silences.since(trial.destination)).unwrap_or(now.instant);
                retry_in = Some(outage_delay(&self.policy, &self.budget, now.instant.duration_since(since)));
                (Status::Pending, None)
            }
            Outcome::Delivered | Outcome::Found => (Status::Sent, None),
            Outcome::Behind | Outcome::Unread { .. } => (Status::Pending, None), // it has come back above
            Outcome::Rejected(error) => (Status::Failed, Some(error)),
            Outcome::Retry(error) => self.policy.after_attempt(error, attempts, &event, now),
            Outcome::Unavailable(error) => {
                let destination = self.availability.destination(&event);
                let is_crowded = self.budget.is_crowded();
                let others_in_flight = self.in_flight > self.silences.trials();
                let leaves_with_others = tracked.key.is_some() && self.keys.leave_together();
                // Channels have no order between them, so messages that were confirmed may have been taken before this
                // one was nacked.
                let number = if trial.is_some() { self.availability.published() } else { tracked.number };
                match self.availability.unavailable(*id, number, destination, others_in_flight, now.instant) {
                    Attempt::Counts => self.policy.after_attempt(error, attempts, &event, now),
                    attempt if leaves_with_others && (attempt == Attempt::Uncounted || !is_crowded) => {
                        // Other events of the key are in flight and likely to be unavailable as well. They keep their
                        // order if they stay in memory.
                        tracked.event = Some(event);
                        tracked.state = State::Ready;
                        self.ready.push(Reverse((tracked.order, *id)));
                        return None;
                    }
                    Attempt::Uncounted => (Status::Pending, None),
                    Attempt::InOutage(since) => {
                        retry_in = Some(outage_delay(&self.policy, &self.budget, now.instant.duration_since(since)));
                        (Status::Pending, None)
                    }
                }
            }
        };
        let mut landed = tracked.land(self.policy.holds(status));
        if is_found {
            landed.number = None;
        }
        let retry_in = (status == Status::Pending)
            .then(|| retry_in.unwrap_or_else(|| self.policy.backoff.delay(attempts, &mut self.jitter)));
        Some(self.decide(id, event, landed, status, error, retry_in))
    }

    /// Makes the verdict of an event that is no longer in flight, and releases or holds its key. `retry_in`: the delay
    /// until the next attempt, if it is `PENDING`.
    pub(super) fn decide(
        &mut self,
        id: &Uuid,
        event: Arc<Event>,
        landed: Landed,
        status: Status,
        error: Option<String>,
        retry_in: Option<Duration>,
    ) -> (Verdict, Arc<Event>) {
        let Landed { key, number, was_holder, holds_key } = landed;
        self.settling += 1;
        self.budget.give_back_bytes(event.memory());
        let destination = |availability: &Availability| availability.destination(&event);
        let takes_again = status == Status::Sent
            && match number {
                Some(number) => self.availability.confirmed(id, number, destination),
                None => self.availability.found(destination),
            };
        if status == Status::Failed {
            self.availability.forget(id); // a replay begins anew
        }
        match key {
            Some(key) if holds_key => {
                for queued in self.keys.hold(key, &event, was_holder) {
                    self.leave_to_table(&queued);
                }
            }
            Some(key) if !was_holder => self.finish_for_key(key, false),
            Some(_) | None => {}
        }
        if takes_again {
            self.end_probing();
        }
        (Verdict { id: *id, status, error, retry_in, holds_key: holds_key && key.is_some() }, event)
    }

    /// The verdict is written, or the row is `gone`. Forgets the event and returns the ticket of its transaction;
    /// `None`: a scan found the event, or no verdict of it was to be written.
    pub(crate) fn settled(&mut self, id: &Uuid, gone: bool) -> Option<Ticket> {
        let Entry::Occupied(entry) = self.tracked.entry(*id) else { return None };
        if entry.get().state != State::Settling {
            return None;
        }
        let tracked = entry.remove();
        self.settling -= 1;
        self.budget.give_back_event();
        if let Some(key) = tracked.key {
            if tracked.is_holder {
                self.finish_for_key(key, true);
            }
            if gone {
                if !faults::is_on(Fault::GoneLetsLaterGo) {
                    self.spill_held();
                }
                self.keys.gone(key, id);
            }
        }
        tracked.ticket
    }

    /// The connection is lost. Events in flight have unknown outcomes and leave again first, in their old order, and no
    /// attempt counts.
    pub(super) fn outage(&mut self) {
        for (id, tracked) in &mut self.tracked {
            if tracked.state == State::InFlight && !faults::is_on(Fault::OutageForgets) {
                tracked.state = State::Ready;
                tracked.attempts += u32::from(faults::is_on(Fault::OutageCounts));
                self.ready.push(Reverse((tracked.order, *id)));
            }
        }
        self.in_flight = 0;
        self.suspects.outlasted.clear();
        self.silences.lost();
        self.availability.lost();
        self.keys.lost();
        self.end_returning();
        self.end_probing();
    }

    /// An event of the key is done: it has its verdict, and if it held the key, the verdict is written. Makes the
    /// events ready that waited for it.
    fn finish_for_key(&mut self, key: KeyHash, was_holder: bool) {
        for id in self.keys.finished(key, was_holder) {
            if let Some(tracked) = self.tracked.get_mut(&id) {
                tracked.state = State::Ready;
                self.ready.push(Reverse((tracked.order, id)));
            }
        }
    }
}
