//! Which event may leave next: ordering keys, retries, the memory budget.
//!
//! ```text
//!  admit ──▶ Queued ──▶ Ready ──▶ InFlight ──▶ Settling ──▶ (forgotten)
//!              │ (its key is busy)                             SENT, FAILED, or PENDING until its next attempt is due
//!              └──▶ (back to the table: an earlier event holds its key)
//! ```
//!
//! An event that is to be tried again does not wait in memory: the table has its time, and that it holds its key. While
//! every destination is unavailable ([`availability`]), events that were not tried yet wait in memory, as in any
//! outage.
//!
//! | file | what it decides |
//! |---|---|
//! | `returning` | what comes back from an ordered sink behind an event that was not taken |
//! | `too_large` | which event is larger than the broker takes |
//! | `outcomes` | what an outcome means: a verdict, and whether the key is held |
//! | `keys`, `key`, `spilling` | which events wait for which, in memory or in the table |
//! | `budget` | how much may be in memory |
//! | `availability`, `probing` | whether a nack counts, and what leaves while every destination is unavailable |
//! | `silences`, `side_channels` | which destinations answer nothing, and how their events leave |
//! | `suspects` | which event has ended the connection |

mod availability;
mod budget;
mod key;
mod keys;
mod outcomes;
mod probing;
mod returning;
mod side_channels;
mod silences;
mod spilling;
mod suspects;
mod too_large;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use uuid::Uuid;

pub use self::silences::SIDE_CHANNELS;
use self::{
    availability::Availability,
    budget::Budget,
    keys::{KeyHash, Keys, Place},
    silences::Silences,
    suspects::Suspects,
};
pub(crate) use self::{
    side_channels::{Silence, SplitOff},
    suspects::{Alone, Loss},
};
use crate::{
    interface::{Abilities, Event, IdHash, Limits, Now, Policy},
    parts::{Origin, Ticket},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The event waits for its key.
    Queued,
    Ready,
    InFlight,
    /// The event's verdict is to be written.
    Settling,
}

crate::marked_by_name!(State);

/// An event in memory.
#[derive(Clone, Debug)]
struct Tracked {
    /// `None` once answered: the entry stays until its verdict is written, and the body is no longer needed.
    event: Option<Arc<Event>>,
    /// The event's `seq`, which tells which scans can find its row; it stays when `event` is gone.
    seq: i64,
    key: Option<KeyHash>,
    /// The event's number in the order of admission, which is the order of leaving.
    order: u64,
    state: State,
    /// Attempts before the present one.
    attempts: u32,
    /// The message's number among all that were handed to the broker; 0 while it is on a side channel.
    number: u64,
    /// Connections that ended while the event was in flight, since its last answer; counted up to the number from which
    /// it leaves alone ([`suspects`]).
    endings: u8,
    /// Whether the event is one of its key's active holders: an earlier attempt has failed or was put off, it is on a
    /// side channel, or others wait no longer for it as a suspect.
    is_holder: bool,
    ticket: Option<Ticket>,
    /// The transaction that the stream brought the event with; `None`: a scan found it, so its row is visible.
    origin: Option<Origin>,
}

crate::marked!(Tracked {
    event, seq, key, order as Order, state, attempts, number as Message, endings, is_holder, ticket, origin
});

/// What became of an event that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The event is in memory now, and will be published.
    Admitted,
    /// The event was in memory already: both the scan and the stream found it.
    Known,
    /// The event waits in the table until a pass finds it: its key has its full share of memory, or is held.
    Spilled,
}

/// An event that went back to the table without a verdict. A later pass finds its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftBehind {
    /// The ticket of its transaction in the stream; `None`: a scan found the event.
    pub(crate) ticket: Option<Ticket>,
    /// The transaction that the stream brought the event with; `None`: a scan found it.
    pub(crate) origin: Option<Origin>,
}

crate::marked!(LeftBehind { ticket, origin });

/// The events in memory, and the rules by which they leave.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    policy: Policy,
    /// Most bytes of a body that the broker takes; `None`: no limit is known.
    largest_message: Option<usize>,
    pub(crate) budget: Budget,
    jitter: fastrand::Rng,
    tracked: HashMap<Uuid, Tracked, IdHash>,
    pub(crate) keys: Keys,
    /// Ready events by order of admission: the longest waiting leaves first. So a hot key does not queue up anew for
    /// each event, and many hot keys keep no other waiting.
    ready: BinaryHeap<Reverse<(u64, Uuid)>>,
    pub(crate) availability: Availability,
    pub(crate) silences: Silences,
    pub(crate) suspects: Suspects,
    split_off: SplitOff,
    /// Ready events that wait for a round while every destination is unavailable, with their order of admission.
    set_aside: Vec<(u64, Uuid)>,
    set_aside_keys: HashSet<KeyHash, IdHash>,
    /// Ready events whose keys have later events that have yet to come back from an ordered sink, with their order of
    /// admission.
    behind: Vec<(u64, Uuid)>,
    left_behind: Vec<LeftBehind>,
    admitted: u64,
    in_flight: usize,
    settling: usize,
}

crate::marked!(Dispatch {
    budget, tracked, keys, ready as Order, availability, silences, suspects, split_off, set_aside as Order,
    set_aside_keys, behind as Order, left_behind, admitted as Order, in_flight, settling
} not { policy, largest_message, jitter });

impl Dispatch {
    pub(crate) fn new(limits: Limits, policy: Policy, silent_after: Duration, abilities: Abilities, seed: u64) -> Self {
        Self {
            policy,
            largest_message: abilities.largest_message,
            budget: Budget::new(limits),
            jitter: fastrand::Rng::with_seed(seed),
            tracked: HashMap::default(),
            keys: Keys::new(policy.ordering, abilities.ordered, limits.key_share(), seed),
            ready: BinaryHeap::new(),
            availability: Availability::new(seed),
            silences: Silences::new(silent_after),
            suspects: Suspects::default(),
            split_off: SplitOff::default(),
            set_aside: Vec::new(),
            set_aside_keys: HashSet::default(),
            behind: Vec::new(),
            left_behind: Vec::new(),
            admitted: 0,
            in_flight: 0,
            settling: 0,
        }
    }

    /// The events in memory with a greater `seq`. While the pages of a backlog follow each other, there are none.
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

    /// Events handed to the broker and unanswered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Events handed to the broker whose verdicts are not written: at most these are delivered twice after a crash.
    pub(crate) fn unsettled(&self) -> usize {
        self.in_flight + self.settling
    }

    /// The events in memory that have no answer of the broker yet.
    pub(crate) fn unanswered_events(&self) -> impl Iterator<Item = &Event> {
        self.tracked.values().filter_map(|tracked| tracked.event.as_deref())
    }

    /// Whether the event is in memory.
    pub(crate) fn knows(&self, id: &Uuid) -> bool {
        self.tracked.contains_key(id)
    }

    /// Offers an event; events of a key must be offered in their order. `origin`: the transaction that the stream
    /// brought it with.
    pub(crate) fn admit(&mut self, event: Arc<Event>, origin: Option<Origin>) -> Admission {
        let id = event.id;
        let Entry::Vacant(vacant) = self.tracked.entry(id) else { return Admission::Known };
        self.admitted += 1;
        let order = self.admitted;
        let key = self.keys.of(&event);
        let turn = key.map_or(Place::Now, |key| self.keys.enter(key, &event));
        let state = match turn {
            Place::Now | Place::Holder => State::Ready,
            Place::Behind => State::Queued,
            Place::Full => return Admission::Spilled,
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
            endings: self.suspects.admit(&id),
            is_holder: turn == Place::Holder,
            ticket: None,
            origin,
        });
        Admission::Admitted
    }

    /// Ties the event to the ticket of the transaction that the stream brought it with.
    pub(crate) fn attach(&mut self, id: &Uuid, ticket: Ticket) {
        if let Some(tracked) = self.tracked.get_mut(id) {
            debug_assert!(tracked.ticket.is_none_or(|old| old < ticket), "a row is inserted once");
            tracked.ticket = Some(ticket);
        }
    }

    /// Takes at most `max` events that may leave now, and counts them as in flight. Events for silent destinations are
    /// split off ([`SplitOff`]).
    pub(crate) fn next_batch(&mut self, max: usize, now: Now) -> Vec<Arc<Event>> {
        if let Some(batch) = self.next_suspect(max, now.instant) {
            return batch;
        }
        if self.availability.since().is_some() {
            return self.next_probes(max, now.instant);
        }
        let mut batch = Vec::with_capacity(max.min(self.ready.len()));
        while self.split_off_silent(max.saturating_sub(batch.len()), now.instant)
            && batch.len() + self.split_off.len() < max
            && !self.is_suspect_next()
        {
            let Some(Reverse((_, id))) = self.ready.pop() else { break };
            batch.extend(self.hand_over(&id));
        }
        batch
    }

    /// Hands a ready event to the broker. `None`: it goes back to the table since its key is held, it waits for later
    /// events of its key to come back, or it is too large.
    fn hand_over(&mut self, id: &Uuid) -> Option<Arc<Event>> {
        if self.spill_if_held(id) || self.waits_for_return(id) || self.is_too_large(id) {
            return None;
        }
        let tracked = self.tracked.get_mut(id)?;
        debug_assert_eq!(tracked.state, State::Ready, "an event is ready once");
        if let Some(key) = tracked.key {
            self.keys.leaves(key);
        }
        tracked.state = State::InFlight;
        tracked.number = self.availability.publish();
        self.in_flight += 1;
        tracked.event.clone()
    }

    /// An upper bound of the events that may leave: some may have to go back to the table.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len() + self.set_aside.len() + self.suspects.resting.len()
    }

    /// Takes the events that went back to the table since the last call.
    pub(crate) fn take_left_behind(&mut self) -> Vec<LeftBehind> {
        std::mem::take(&mut self.left_behind)
    }

    /// The transaction that the stream brought the event with; `None`: a scan found it, or it is not in memory.
    pub(crate) fn xid(&self, id: &Uuid) -> Option<u32> {
        self.tracked.get(id).and_then(|tracked| tracked.origin).map(|origin| origin.xid)
    }

    /// Whether events are about to leave memory, waiting for nothing but answers of the broker and the database.
    /// `unwritten`: verdicts that wait for something else.
    pub(crate) fn is_moving(&self, unwritten: usize) -> bool {
        self.unsettled() > unwritten + self.on_side_channels() || !self.ready.is_empty()
    }
}
