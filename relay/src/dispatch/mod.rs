//! Which event may leave next: ordering keys, holds, the memory budget. Pure: time is an argument.
//!
//! ```text
//!  admit ──▶ Held ──▶ Ready ──▶ InFlight ──▶ Settling ──▶ (forgotten)
//!              │ (its key is busy)                           SENT, FAILED, or PENDING until its next attempt is due
//!              └──▶ (left to the table: an event before it was refused)
//! ```
//!
//! An event that is to be tried again does not wait in memory. The table has its time, and that it holds its key. While the broker
//! refuses everything (`refusals`), those that were not refused yet wait in memory, as in any outage.

mod budget;
mod key;
#[cfg(test)]
mod model;
mod name;
mod policy;
mod probing;
mod refusals;
mod retry;
mod verdict;
mod waiting;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet, hash_map::Entry as MapEntry},
    sync::Arc,
    time::Instant,
};

use uuid::Uuid;

use self::{
    budget::Budget,
    key::{Entry, KeyHash, Keys},
    refusals::{Judged, LONGEST_PAUSE, Refusals, Refused},
};
pub use self::{
    budget::Limits,
    name::{Holding, KeyName},
    policy::{Ordering, Policy},
    retry::Retry,
    verdict::{Admission, LeftBehind, Now, Outcome, Settlement, Status},
};
use crate::{event::Event, hash::BuildFold, progress::Ticket};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    Ready,
    InFlight,
    Settling,
}

#[derive(Debug)]
struct Slot {
    /// Until the broker has answered: then its row and its place in memory wait for the verdict, and nobody for its body.
    event: Option<Arc<Event>>,
    /// The event's own, to tell without a look at it which rows a scan may find.
    seq: i64,
    key: Option<KeyHash>,
    /// Order of admission, in which events leave.
    order: u64,
    state: State,
    attempts: u32,
    /// The message's number, of those that were handed to the broker.
    number: u64,
    /// Whether it was refused before and its key waits for it.
    returning: bool,
    ticket: Option<Ticket>,
    /// The transaction that the stream brought it with; a scan's row is visible already.
    xid: Option<u32>,
}

/// Events in memory and the rules by which they leave.
#[derive(Debug)]
pub struct Dispatch {
    policy: Policy,
    budget: Budget,
    slots: HashMap<Uuid, Slot, BuildFold>,
    keys: Keys,
    /// By order of admission: the longest waiting leaves first, so a hot key does not queue up anew for each event, and no
    /// number of hot keys keeps another waiting.
    ready: BinaryHeap<Reverse<(u64, Uuid)>>,
    refusals: Refusals,
    /// Ready, but the broker refuses everything: they wait for their turn to try.
    set_aside: Vec<(u64, Uuid)>,
    set_aside_keys: HashSet<KeyHash, BuildFold>,
    left: Vec<LeftBehind>,
    admitted: u64,
    in_flight: usize,
    settling: usize,
}

impl Dispatch {
    /// An empty dispatch.
    pub fn new(limits: Limits, policy: Policy) -> Self {
        Self {
            policy,
            budget: Budget::new(limits),
            slots: HashMap::default(),
            keys: Keys::new(policy.ordering, limits.key_share()),
            ready: BinaryHeap::new(),
            refusals: Refusals::default(),
            set_aside: Vec::new(),
            set_aside_keys: HashSet::default(),
            left: Vec::new(),
            admitted: 0,
            in_flight: 0,
            settling: 0,
        }
    }

    /// Whether another event may be admitted. A soft bound: the event that crosses it is still taken.
    pub fn has_room(&self) -> bool {
        self.budget.has_room()
    }

    /// Events and bytes that may still be admitted.
    pub fn room(&self) -> (usize, usize) {
        self.budget.room()
    }

    /// What is in memory of the rows with a greater `seq`. As long as the pages of a backlog follow each other, it is nothing.
    pub fn known(&self, after_seq: i64) -> HashSet<Uuid, BuildFold> {
        self.slots.iter().filter(|(_, slot)| slot.seq > after_seq).map(|(id, _)| *id).collect()
    }

    /// Events in memory.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no event is in memory.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Events handed to the broker and not answered.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Events handed to the broker without a verdict in the table yet: what a crash now would repeat, at most.
    pub fn unsettled(&self) -> usize {
        self.in_flight + self.settling
    }

    /// Whether the event is in memory.
    pub fn knows(&self, id: &Uuid) -> bool {
        self.slots.contains_key(id)
    }

    /// Offers an event, in the order in which its key's events shall leave. `xid` is the transaction of a streamed one.
    pub fn admit(&mut self, event: impl Into<Arc<Event>>, xid: Option<u32>) -> Admission {
        let event = event.into();
        let id = event.id;
        let MapEntry::Vacant(slot) = self.slots.entry(id) else { return Admission::Known };
        self.admitted += 1;
        let key = self.keys.of(&event);
        let entry = key.map_or(Entry::Free, |key| self.keys.enter(key, &event));
        let state = match entry {
            Entry::Free | Entry::Returning => State::Ready,
            Entry::Behind => State::Held,
            Entry::Full => return Admission::Spilled,
        };
        if state == State::Ready {
            self.ready.push(Reverse((self.admitted, id)));
        }
        self.budget.take(event.memory());
        let attempts = event.attempts;
        let returning = entry == Entry::Returning;
        let (seq, order) = (event.seq, self.admitted);
        slot.insert(Slot {
            event: Some(event),
            seq,
            key,
            order,
            state,
            attempts,
            number: 0,
            returning,
            ticket: None,
            xid,
        });
        Admission::Admitted
    }

    /// Ties the event to the transaction that the stream brought it with.
    pub fn attach(&mut self, id: &Uuid, ticket: Ticket) {
        if let Some(slot) = self.slots.get_mut(id) {
            debug_assert!(slot.ticket.is_none_or(|old| old < ticket), "a row is inserted once");
            slot.ticket = Some(ticket);
        }
    }

    /// Undoes [`attach`](Self::attach): the transaction need not wait for the event any longer.
    pub fn detach(&mut self, id: &Uuid) -> Option<Ticket> {
        self.slots.get_mut(id)?.ticket.take()
    }

    /// Takes at most `max` events that may leave now; they count as in flight.
    pub fn next_batch(&mut self, max: usize, now: Instant) -> Vec<Arc<Event>> {
        if self.refusals.since().is_some() {
            return self.next_probes(max, now);
        }
        let mut batch = Vec::with_capacity(max.min(self.ready.len()));
        while batch.len() < max {
            let Some(Reverse((_, id))) = self.ready.pop() else { break };
            batch.extend(self.leave(&id));
        }
        batch
    }

    /// An event that is ready leaves for the broker, or for the table, if its key is held back.
    fn leave(&mut self, id: &Uuid) -> Option<Arc<Event>> {
        if self.held_back(id) {
            return None;
        }
        let slot = self.slots.get_mut(id)?;
        debug_assert_eq!(slot.state, State::Ready, "an event is ready once");
        slot.state = State::InFlight;
        slot.number = self.refusals.publish();
        self.in_flight += 1;
        slot.event.clone()
    }

    /// Pipelined events can be ready when one before them is refused: they go back to the table.
    fn held_back(&mut self, id: &Uuid) -> bool {
        let key = self.slots.get(id).filter(|slot| !slot.returning).and_then(|slot| slot.key);
        let is_held_back = key.is_some_and(|key| self.keys.hold_back(key));
        if is_held_back {
            self.leave_to_table(id);
        }
        is_held_back
    }

    /// Takes the broker's answer, and gives the event away. `None`: it was refused and stays in memory; or it was not in flight,
    /// the answer is about an earlier connection.
    pub fn answered(&mut self, id: &Uuid, outcome: Outcome, now: Now) -> Option<(Settlement, Arc<Event>)> {
        let is_crowded = self.is_crowded();
        let slot = self.slots.get_mut(id).filter(|slot| slot.state == State::InFlight)?;
        let event = slot.event.take()?;
        let attempts = slot.attempts + 1;
        self.in_flight -= 1;
        let mut retry_in = self.policy.retry.delay(attempts);
        let (status, error) = match outcome {
            Outcome::Delivered => (Status::Sent, None),
            Outcome::Rejected(error) => (Status::Failed, Some(error)),
            Outcome::Retry(error) => self.policy.after_refusal(error, attempts, &event, now),
            Outcome::Nacked(error) => {
                let route = self.refusals.route(&event);
                let message = Refused { id: *id, number: slot.number, route, others_in_flight: self.in_flight > 0 };
                let judged = self.refusals.refused(message, now.instant);
                let may_stay = !is_crowded || judged == Judged::Uncounted;
                if judged != Judged::Counts
                    && may_stay
                    && slot.key.is_some()
                    && self.policy.ordering == Ordering::Pipelined
                {
                    // Others of its key are in flight, and are likely to be refused, too: in memory they keep their order.
                    slot.event = Some(event);
                    slot.state = State::Ready;
                    self.ready.push(Reverse((slot.order, *id)));
                    return None;
                }
                match judged {
                    Judged::Counts => self.policy.after_refusal(error, attempts, &event, now),
                    Judged::Uncounted => (Status::Pending, None),
                    Judged::OutageSince(since) => {
                        let lasted = now.instant.duration_since(since);
                        // One that comes back soon makes no room.
                        let wait = if is_crowded { lasted } else { lasted.min(LONGEST_PAUSE) };
                        retry_in = self.policy.retry.outage_delay(wait);
                        (Status::Pending, None)
                    }
                }
            }
        };
        self.budget.give_back_bytes(event.memory());
        let takes_again =
            status == Status::Sent && self.refusals.confirmed(id, slot.number, |refusals| refusals.route(&event));
        let retry_in = (status == Status::Pending).then_some(retry_in);
        slot.state = State::Settling;
        self.settling += 1;
        let is_refused = status == Status::Pending || (status == Status::Failed && self.policy.hold_failed);
        let mut holds_key = false;
        match slot.key {
            Some(key) if is_refused => {
                holds_key = true;
                let returning = std::mem::take(&mut slot.returning);
                for waiting in self.keys.hold(key, &event, returning) {
                    self.leave_to_table(&waiting);
                }
            }
            Some(key) if !slot.returning => {
                let released = self.keys.leave(key, false);
                self.release(released);
            }
            Some(_) | None => {}
        }
        if takes_again {
            self.end_probing();
        }
        Some((Settlement { id: *id, status, error, retry_in, holds_key }, event))
    }

    /// The verdict stands in the table (or the row is `gone`): forgets the event and returns its transaction.
    pub fn settled(&mut self, id: &Uuid, gone: bool) -> Option<Ticket> {
        let MapEntry::Occupied(slot) = self.slots.entry(*id) else { return None };
        if slot.get().state != State::Settling {
            return None;
        }
        let slot = slot.remove();
        self.settling -= 1;
        self.budget.give_back_event();
        if let Some(key) = slot.key {
            if slot.returning {
                let released = self.keys.leave(key, true);
                self.release(released);
            }
            if gone {
                self.keys.gone(key, id);
            }
        }
        slot.ticket
    }

    /// What had to leave memory for the table since this was last asked.
    pub fn take_left_behind(&mut self) -> Vec<LeftBehind> {
        std::mem::take(&mut self.left)
    }

    /// The transaction of an event that the stream brought.
    pub fn xid(&self, id: &Uuid) -> Option<u32> {
        self.slots.get(id).and_then(|slot| slot.xid)
    }

    /// The connection is lost: what was in flight is unknown and leaves again first, in its old order, at no attempt.
    pub fn outage(&mut self) {
        for (id, slot) in &mut self.slots {
            if slot.state == State::InFlight {
                slot.state = State::Ready;
                self.ready.push(Reverse((slot.order, *id)));
            }
        }
        self.in_flight = 0;
        self.refusals.lost();
        self.end_probing();
    }

    /// Whether events are about to leave memory by themselves, without waiting for anything but the servers.
    pub fn is_moving(&self) -> bool {
        self.unsettled() > 0 || !self.ready.is_empty()
    }

    fn release(&mut self, released: Vec<Uuid>) {
        for id in released {
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.state = State::Ready;
                self.ready.push(Reverse((slot.order, id)));
            }
        }
    }

    fn leave_to_table(&mut self, id: &Uuid) {
        if let Some(slot) = self.slots.remove(id) {
            self.budget.give_back_event();
            self.budget.give_back_bytes(slot.event.map_or(0, |event| event.memory()));
            self.left.push(LeftBehind { ticket: slot.ticket, xid: slot.xid });
        }
    }
}
