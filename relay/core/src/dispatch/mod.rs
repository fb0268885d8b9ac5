//! Which event may leave next: ordering keys, retries, the memory budget.
//!
//! ```text
//!  admit ──▶ Queued ──▶ Ready ──▶ InFlight ──▶ Settling ──▶ (forgotten)
//!              │ (its key is busy)                             SENT, FAILED, or PENDING until its next attempt is due
//!              └──▶ (back to the table: an event before it was refused)
//! ```
//!
//! An event that is to be tried again does not wait in memory: the table knows its time, and that it holds its key. While the
//! broker refuses everything ([`refusals`]), events that were not refused yet wait in memory, as in any outage.

mod budget;
mod keys;
mod probing;
mod refusals;
mod spilling;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use uuid::Uuid;

use self::{
    budget::Budget,
    keys::{KeyHash, Keys, Turn},
    refusals::{Judged, LONGEST_PAUSE, Refusals, Refused},
};
use crate::{
    awaited::Origin,
    config::{Limits, Now, Ordering, Policy},
    event::Event,
    faults::{self, Fault},
    hash::IdHash,
    progress::Ticket,
    verdict::{Outcome, Status, Verdict},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for its key.
    Queued,
    Ready,
    InFlight,
    /// Its verdict is being written.
    Settling,
}

/// An event in memory.
#[derive(Clone, Debug)]
struct Tracked {
    /// Until the broker has answered: then its row and its place in memory wait for the verdict, and nobody for its body.
    event: Option<Arc<Event>>,
    /// The event's own, to tell without a look at it which rows a scan may find.
    seq: i64,
    key: Option<KeyHash>,
    /// Order of admission, in which events leave.
    order: u64,
    state: State,
    /// Attempts before this one.
    attempts: u32,
    /// The message's number, of those that were handed to the broker.
    number: u64,
    /// Whether it was refused before and its key waits for it.
    returning: bool,
    ticket: Option<Ticket>,
    /// The transaction that the stream brought it with; a scan's row is visible already.
    origin: Option<Origin>,
}

/// What became of an event that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is in memory now, and will be published.
    Admitted,
    /// It was in memory already: the scan and the stream both found it.
    Known,
    /// Its key has its full share of memory, or is held: the row waits in the table until a pass finds it.
    Spilled,
}

/// An event that went back to the table without a verdict: a later pass finds its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftBehind {
    /// What [`Dispatch::attach`] has tied it to.
    pub(crate) ticket: Option<Ticket>,
    /// The transaction that the stream brought it with.
    pub(crate) origin: Option<Origin>,
}

/// Events in memory and the rules by which they leave.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    policy: Policy,
    budget: Budget,
    jitter: fastrand::Rng,
    tracked: HashMap<Uuid, Tracked, IdHash>,
    keys: Keys,
    /// By order of admission: the longest waiting leaves first, so a hot key does not queue up anew for each event, and no
    /// number of hot keys keeps another waiting.
    ready: BinaryHeap<Reverse<(u64, Uuid)>>,
    refusals: Refusals,
    /// Ready, but the broker refuses everything: they wait for their turn to try.
    set_aside: Vec<(u64, Uuid)>,
    set_aside_keys: HashSet<KeyHash, IdHash>,
    left_behind: Vec<LeftBehind>,
    admitted: u64,
    in_flight: usize,
    settling: usize,
}

impl Dispatch {
    pub(crate) fn new(limits: Limits, policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            budget: Budget::new(limits),
            jitter: fastrand::Rng::with_seed(seed),
            tracked: HashMap::default(),
            keys: Keys::new(policy.ordering, limits.key_share(), seed),
            ready: BinaryHeap::new(),
            refusals: Refusals::new(seed),
            set_aside: Vec::new(),
            set_aside_keys: HashSet::default(),
            left_behind: Vec::new(),
            admitted: 0,
            in_flight: 0,
            settling: 0,
        }
    }

    /// Whether another event may be admitted. A soft bound: the event that crosses it is still taken.
    pub(crate) fn has_room(&self) -> bool {
        self.budget.has_room()
    }

    /// Events and bytes that may still be admitted.
    pub(crate) fn room(&self) -> (usize, usize) {
        self.budget.room()
    }

    /// What is in memory of the rows with a greater `seq`. As long as the pages of a backlog follow each other, it is nothing.
    pub(crate) fn known(&self, after_seq: i64) -> HashSet<Uuid, IdHash> {
        self.tracked.iter().filter(|(_, tracked)| tracked.seq > after_seq).map(|(id, _)| *id).collect()
    }

    /// Events in memory.
    pub(crate) fn len(&self) -> usize {
        self.tracked.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tracked.is_empty()
    }

    /// Events handed to the broker and not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Events handed to the broker without a verdict in the table yet: what a crash now would repeat, at most.
    pub(crate) fn unsettled(&self) -> usize {
        self.in_flight + self.settling
    }

    /// Whether the event is in memory.
    pub(crate) fn knows(&self, id: &Uuid) -> bool {
        self.tracked.contains_key(id)
    }

    /// Offers an event, in the order in which its key's events shall leave. `origin` is the transaction of a streamed one.
    pub(crate) fn admit(&mut self, event: Arc<Event>, origin: Option<Origin>) -> Admission {
        let id = event.id;
        let Entry::Vacant(vacant) = self.tracked.entry(id) else { return Admission::Known };
        self.admitted += 1;
        let order = self.admitted;
        let key = self.keys.of(&event);
        let turn = key.map_or(Turn::Now, |key| self.keys.enter(key, &event));
        let state = match turn {
            Turn::Now | Turn::Returning => State::Ready,
            Turn::Behind => State::Queued,
            Turn::Full => return Admission::Spilled,
        };
        if state == State::Ready {
            self.ready.push(Reverse((order, id)));
        }
        self.budget.take(event.memory());
        vacant.insert(Tracked {
            seq: event.seq,
            attempts: event.attempts,
            event: Some(event),
            key,
            order,
            state,
            number: 0,
            returning: turn == Turn::Returning,
            ticket: None,
            origin,
        });
        Admission::Admitted
    }

    /// Ties the event to the transaction that the stream brought it with.
    pub(crate) fn attach(&mut self, id: &Uuid, ticket: Ticket) {
        if let Some(tracked) = self.tracked.get_mut(id) {
            debug_assert!(tracked.ticket.is_none_or(|old| old < ticket), "a row is inserted once");
            tracked.ticket = Some(ticket);
        }
    }

    /// Undoes [`attach`](Self::attach): the transaction need not wait for the event any longer.
    pub(crate) fn detach(&mut self, id: &Uuid) -> Option<Ticket> {
        self.tracked.get_mut(id)?.ticket.take()
    }

    /// Takes at most `max` events that may leave now; they count as in flight.
    pub(crate) fn next_batch(&mut self, max: usize, now: Now) -> Vec<Arc<Event>> {
        if self.refusals.since().is_some() {
            return self.next_probes(max, now.instant);
        }
        let mut batch = Vec::with_capacity(max.min(self.ready.len()));
        while batch.len() < max {
            let Some(Reverse((_, id))) = self.ready.pop() else { break };
            batch.extend(self.leave(&id));
        }
        batch
    }

    /// An event that is ready leaves for the broker, or for the table, if its key is held.
    fn leave(&mut self, id: &Uuid) -> Option<Arc<Event>> {
        if self.spill_if_held(id) {
            return None;
        }
        let tracked = self.tracked.get_mut(id)?;
        debug_assert_eq!(tracked.state, State::Ready, "an event is ready once");
        tracked.state = State::InFlight;
        tracked.number = self.refusals.publish();
        self.in_flight += 1;
        tracked.event.clone()
    }

    /// Takes the broker's answer, and gives the event away. `None`: it was refused and stays in memory; or it was not in flight,
    /// the answer is about an earlier connection.
    pub(crate) fn answered(&mut self, id: &Uuid, outcome: Outcome, now: Now) -> Option<(Verdict, Arc<Event>)> {
        let is_crowded = self.is_crowded();
        let tracked = self.tracked.get_mut(id).filter(|tracked| tracked.state == State::InFlight)?;
        let event = tracked.event.take()?;
        let attempts = tracked.attempts + 1;
        self.in_flight -= 1;
        let mut retry_in = self.policy.backoff.delay(attempts, &mut self.jitter);
        let (status, error) = match outcome {
            Outcome::Delivered => (Status::Sent, None),
            Outcome::Rejected(error) => (Status::Failed, Some(error)),
            Outcome::Retry(error) => self.policy.after_refusal(error, attempts, &event, now),
            Outcome::Unavailable(error) => {
                let route = self.refusals.route(&event);
                let message = Refused { id: *id, number: tracked.number, route, others_in_flight: self.in_flight > 0 };
                let judged = self.refusals.refused(message, now.instant);
                let may_stay = !is_crowded || judged == Judged::Uncounted;
                let is_pipelined = tracked.key.is_some() && self.policy.ordering == Ordering::Pipelined;
                if judged != Judged::Counts && may_stay && is_pipelined {
                    // Others of its key are in flight, and are likely to be refused, too: in memory they keep their order.
                    tracked.event = Some(event);
                    tracked.state = State::Ready;
                    self.ready.push(Reverse((tracked.order, *id)));
                    return None;
                }
                match judged {
                    Judged::Counts => self.policy.after_refusal(error, attempts, &event, now),
                    Judged::Uncounted => (Status::Pending, None),
                    Judged::OutageSince(since) => {
                        let lasted = now.instant.duration_since(since);
                        // One that comes back soon makes no room.
                        let wait = if is_crowded { lasted } else { lasted.min(LONGEST_PAUSE) };
                        retry_in = self.policy.backoff.outage_delay(wait);
                        (Status::Pending, None)
                    }
                }
            }
        };
        self.budget.give_back_bytes(event.memory());
        let takes_again =
            status == Status::Sent && self.refusals.confirmed(id, tracked.number, |refusals| refusals.route(&event));
        if status == Status::Failed {
            self.refusals.forget(id); // if it is replayed, it begins anew
        }
        tracked.state = State::Settling;
        self.settling += 1;
        let holds = status == Status::Pending || (status == Status::Failed && self.policy.hold_failed);
        let (key, returning) = (tracked.key, tracked.returning);
        let holds_key = holds && key.is_some();
        match key {
            Some(key) if holds => {
                tracked.returning = false;
                for queued in self.keys.hold(key, &event, returning) {
                    self.leave_to_table(&queued);
                }
            }
            Some(key) if !returning => {
                let released = self.keys.leave(key, false);
                self.release(released);
            }
            Some(_) | None => {}
        }
        if takes_again {
            self.end_probing();
        }
        let retry_in = (status == Status::Pending).then_some(retry_in);
        Some((Verdict { id: *id, status, error, retry_in, holds_key }, event))
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
            if tracked.returning {
                let released = self.keys.leave(key, true);
                self.release(released);
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

    /// What had to go back to the table since this was last asked.
    pub(crate) fn take_left_behind(&mut self) -> Vec<LeftBehind> {
        std::mem::take(&mut self.left_behind)
    }

    /// The transaction of an event that the stream brought.
    pub(crate) fn xid(&self, id: &Uuid) -> Option<u32> {
        self.tracked.get(id).and_then(|tracked| tracked.origin).map(|origin| origin.xid)
    }

    /// The connection is lost: what was in flight is unknown and leaves again first, in its old order, at no attempt.
    pub(crate) fn outage(&mut self) {
        for (id, tracked) in &mut self.tracked {
            if tracked.state == State::InFlight && !faults::is_on(Fault::OutageForgets) {
                tracked.state = State::Ready;
                tracked.attempts += u32::from(faults::is_on(Fault::OutageCounts));
                self.ready.push(Reverse((tracked.order, *id)));
            }
        }
        self.in_flight = 0;
        self.refusals.lost();
        self.end_probing();
    }

    /// Whether events are about to leave memory by themselves, without waiting for anything but the servers.
    pub(crate) fn is_moving(&self) -> bool {
        self.unsettled() > 0 || !self.ready.is_empty()
    }

    fn release(&mut self, released: Vec<Uuid>) {
        for id in released {
            if let Some(tracked) = self.tracked.get_mut(&id) {
                tracked.state = State::Ready;
                self.ready.push(Reverse((tracked.order, id)));
            }
        }
    }
}
