//! What an answer means for its event, and for those behind it: a verdict, and the key's next turn.

use std::{cmp::Reverse, collections::hash_map::Entry, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    Dispatch, State, Tracked,
    availability::{Attempt, LONGEST_PAUSE},
    budget::Budget,
    keys::KeyHash,
};
use crate::{
    faults::{self, Fault},
    interface::{Event, Now, Ordering, Outcome, Policy, Status, Verdict},
    parts::Ticket,
};

/// What its key needs to know of an event that is no longer in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landed {
    key: Option<KeyHash>,
    number: u64,
    was_holder: bool,
    holds_key: bool,
}

impl Tracked {
    /// The event has its verdict, by which it `holds` its key or not.
    pub(super) fn land(&mut self, holds_key: bool) -> Landed {
        let landed = Landed { key: self.key, number: self.number, was_holder: self.is_holder, holds_key };
        self.is_holder &= !holds_key;
        self.state = State::Settling;
        landed
    }
}

/// The delay before an event is tried again that was not taken, through no fault of its own.
/// `lasted`: how long the destination, or the whole broker, has taken nothing.
pub(super) fn outage_delay(policy: &Policy, budget: &Budget, lasted: Duration) -> Duration {
    // While memory has room, an event comes back after 5 s at most (LONGEST_PAUSE; `base`, if that is longer).
    // One that comes back soon makes no room.
    policy.backoff.outage_delay(if budget.is_crowded() { lasted } else { lasted.min(LONGEST_PAUSE) })
}

impl Dispatch {
    /// Takes the broker's answer, and gives the event away. `None`: it was refused and stays in memory; or it was not in flight,
    /// the answer is about an earlier connection.
    pub(crate) fn answered(&mut self, id: &Uuid, outcome: Outcome, now: Now) -> Option<(Verdict, Arc<Event>)> {
        let tracked = self.tracked.get_mut(id).filter(|tracked| tracked.state == State::InFlight)?;
        let event = tracked.event.take()?;
        let attempts = tracked.attempts + 1;
        let trial = self.silences.answered(id);
        self.in_flight -= 1;
        self.suspects.answered(id, std::mem::take(&mut tracked.endings));
        let mut retry_in = None; // by the policy, unless said otherwise
        let is_late_nack = matches!(outcome, Outcome::Unavailable(_))
            && trial.is_some_and(|trial| self.silences.is_late(&trial, now.instant));
        if let Some(trial) = trial.filter(|_| !is_late_nack) {
            self.silences.spoke(trial.destination);
        }
        let (status, error) = match outcome {
            // A late nack: a channel of RabbitMQ 4.0 gives up after 65 s. The destination stays silent.
            Outcome::Unavailable(_) if is_late_nack => {
                let since = trial.and_then(|trial| self.silences.since(trial.destination)).unwrap_or(now.instant);
                retry_in = Some(outage_delay(&self.policy, &self.budget, now.instant.duration_since(since)));
                (Status::Pending, None)
            }
            Outcome::Delivered => (Status::Sent, None),
            Outcome::Rejected(error) => (Status::Failed, Some(error)),
            Outcome::Retry(error) => self.policy.after_attempt(error, attempts, &event, now),
            Outcome::Unavailable(error) => {
                let destination = self.availability.destination(&event);
                let is_crowded = self.budget.is_crowded();
                let others_in_flight = self.in_flight > self.silences.trials();
                let is_pipelined = tracked.key.is_some() && self.policy.ordering == Ordering::Pipelined;
                // Channels have no order between them: what was confirmed may have been taken before this was nacked.
                let number = if trial.is_some() { self.availability.published() } else { tracked.number };
                match self.availability.unavailable(*id, number, destination, others_in_flight, now.instant) {
                    Attempt::Counts => self.policy.after_attempt(error, attempts, &event, now),
                    attempt if is_pipelined && (attempt == Attempt::Uncounted || !is_crowded) => {
                        // Others of its key are in flight, and are likely to be refused, too: in memory they keep their order.
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
        let landed = tracked.land(self.policy.holds(status));
        let retry_in = (status == Status::Pending)
            .then(|| retry_in.unwrap_or_else(|| self.policy.backoff.delay(attempts, &mut self.jitter)));
        Some(self.decide(id, event, landed, status, error, retry_in))
    }

    /// An event that is no longer in flight has this verdict, and what waited for it goes on. `retry_in`: until its next
    /// attempt, if it is `PENDING`.
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
        let takes_again = status == Status::Sent
            && self.availability.confirmed(id, number, |availability| availability.destination(&event));
        if status == Status::Failed {
            self.availability.forget(id); // if it is replayed, it begins anew
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

    /// The verdict stands in the table (or the row is `gone`): forgets the event and returns its transaction.
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

    /// The connection is lost: what was in flight is unknown and leaves again first, in its old order, at no attempt.
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
        self.end_probing();
    }

    /// An event of the key has its verdict; one that was refused before, also in the table. Those that waited for it are ready.
    fn finish_for_key(&mut self, key: KeyHash, was_holder: bool) {
        for id in self.keys.finished(key, was_holder) {
            if let Some(tracked) = self.tracked.get_mut(&id) {
                tracked.state = State::Ready;
                self.ready.push(Reverse((tracked.order, id)));
            }
        }
    }
}
