//! Random histories of the dispatch against what an onlooker may expect of them.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::event::Text;

const KEYS: u128 = 3;
const LIMITS: Limits = Limits { max_events: 24, max_bytes: usize::MAX };
const RETRY: Retry = Retry { base: Duration::from_millis(1), max: Duration::from_millis(8), max_attempts: 4 };

fn event(number: u128) -> Event {
    let key = number % (KEYS + 1);
    Event {
        id: Uuid::from_u128(number),
        seq: 0,
        exchange: None,
        topic: Text::from_static("t"),
        event_type: None,
        aggregate_type: None,
        // One residue has no key.
        aggregate_id: (key < KEYS).then(|| Text::new(Bytes::from(key.to_string())).unwrap()),
        body: Bytes::new(),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 0,
        attempts: 0,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Offer,
    Send(usize),
    Answer(prop::sample::Index, u8),
    Outage,
    Settle,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Offer),
        4 => (1_usize..8).prop_map(Step::Send),
        8 => (any::<prop::sample::Index>(), 0_u8..10).prop_map(|(pick, kind)| Step::Answer(pick, kind)),
        1 => Just(Step::Outage),
        3 => Just(Step::Settle),
        2 => (0_u64..6).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..400)
}

/// The table, the broker and the clock around one dispatch.
struct World {
    dispatch: Dispatch,
    ordering: Ordering,
    now: Instant,
    next: u128,
    /// Rows that are PENDING, in order.
    table: VecDeque<u128>,
    in_flight: Vec<u128>,
    unsettled: Vec<Settlement>,
    verdicts: Vec<u128>,
    blocked: HashSet<u128>,
}

impl World {
    fn new(ordering: Ordering) -> Self {
        Self {
            dispatch: Dispatch::new(LIMITS, ordering, RETRY),
            ordering,
            now: Instant::now(),
            next: 0,
            table: VecDeque::new(),
            in_flight: Vec::new(),
            unsettled: Vec::new(),
            verdicts: Vec::new(),
            blocked: HashSet::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Offer if self.dispatch.has_room() => {
                self.table.push_back(self.next);
                self.dispatch.admit(event(self.next), None);
                self.next += 1;
            }
            Step::Offer => {}
            Step::Send(max) => self.send(max),
            Step::Answer(pick, kind) if !self.in_flight.is_empty() => {
                let id = self.in_flight.swap_remove(pick.index(self.in_flight.len()));
                let outcome = match kind {
                    0..6 => Outcome::Delivered,
                    6 => Outcome::Rejected("no".into()),
                    _ => Outcome::Retry("later".into()),
                };
                self.answer(id, outcome);
            }
            Step::Answer(..) => {}
            Step::Outage => {
                self.dispatch.outage();
                self.in_flight.clear();
            }
            Step::Settle => self.settle(),
            Step::Wait(millis) => self.now += Duration::from_millis(millis),
        }
        assert_eq!(self.dispatch.in_flight(), self.in_flight.len());
    }

    fn send(&mut self, max: usize) {
        for event in self.dispatch.next_batch(self.now, max) {
            let id = event.id.as_u128();
            assert!(!self.in_flight.contains(&id), "sent twice at a time");
            let key = id % (KEYS + 1);
            if self.ordering != Ordering::None && key < KEYS {
                let same_key = |other: &&u128| **other % (KEYS + 1) == key && **other != id;
                if self.ordering == Ordering::Strict {
                    assert!(!self.in_flight.iter().any(|other| same_key(&other)), "a strict key has two in flight");
                }
                let held_back = self.blocked.iter().filter(same_key).any(|blocker| *blocker < id);
                assert!(
                    !held_back || self.blocked.contains(&id),
                    "left past an event of its key that is being retried"
                );
            }
            self.in_flight.push(id);
        }
    }

    fn answer(&mut self, id: u128, outcome: Outcome) {
        let settlement = self.dispatch.answered(&Uuid::from_u128(id), outcome, self.now).expect("it was in flight");
        if settlement.status == Status::Pending {
            self.blocked.insert(id);
        } else {
            self.blocked.remove(&id);
            self.verdicts.push(id);
            self.unsettled.push(settlement);
        }
    }

    fn settle(&mut self) {
        for settlement in self.unsettled.drain(..) {
            self.dispatch.settled(&settlement.id);
            self.table.retain(|id| *id != settlement.id.as_u128());
        }
        // A pass: what spilled is offered again, in order, once its key asks for it.
        if self.dispatch.wants_refill() {
            let full = self.dispatch.full_keys();
            self.dispatch.unspill(&full);
            let is_full = |id: u128| full.iter().any(|key| key.aggregate_id == (id % (KEYS + 1)).to_string());
            for &id in self.table.iter().filter(|&&id| !is_full(id)) {
                self.dispatch.admit(event(id), None);
            }
        }
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            if self.table.is_empty() {
                return;
            }
            self.now += RETRY.max;
            self.send(usize::MAX);
            while let Some(id) = self.in_flight.pop() {
                self.answer(id, Outcome::Delivered);
            }
            self.settle();
        }
        panic!("never drained: {} rows left, dispatch {:?}", self.table.len(), self.dispatch);
    }
}

fn verdicts_by_key(verdicts: &[u128]) -> HashMap<u128, Vec<u128>> {
    let mut keys: HashMap<u128, Vec<u128>> = HashMap::new();
    for id in verdicts {
        keys.entry(id % (KEYS + 1)).or_default().push(*id);
    }
    keys.remove(&KEYS);
    keys
}

fn run(ordering: Ordering, steps: Vec<Step>) -> World {
    let mut world = World::new(ordering);
    for step in steps {
        world.step(step);
    }
    world.drain();
    assert!(world.dispatch.is_empty(), "something stayed in memory: {:?}", world.dispatch);
    let mut all = world.verdicts.clone();
    all.sort_unstable();
    assert_eq!(all, (0..world.next).collect::<Vec<_>>(), "every event gets exactly one verdict");
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_strict_keys_verdicts_come_in_order_whatever_happens(steps in steps()) {
        let world = run(Ordering::Strict, steps);
        for (key, verdicts) in verdicts_by_key(&world.verdicts) {
            prop_assert!(verdicts.is_sorted(), "key {key}: {verdicts:?}");
        }
    }

    #[test]
    fn a_pipelined_key_holds_what_comes_after_a_refused_event(steps in steps()) {
        run(Ordering::Pipelined, steps);
    }

    #[test]
    fn without_ordering_every_event_gets_its_verdict(steps in steps()) {
        run(Ordering::None, steps);
    }
}
