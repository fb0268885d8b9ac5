//! Random histories of the dispatch against what an onlooker may expect of them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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
        topic: Text::from_static(["a", "b", "c"][(number % 3) as usize]),
        event_type: None,
        aggregate_type: None,
        // One residue has no key.
        aggregate_id: (key < KEYS).then(|| Text::new(Bytes::from(key.to_string())).unwrap()),
        body: Ok(Bytes::new()),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 0,
        attempts: 0,
        first_attempted_at_us: None,
        holds_key: false,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Offer,
    Send(usize),
    Answer(prop::sample::Index, u8),
    Outage,
    Settle,
    Pass,
    Operate,
    Restart,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Offer),
        4 => (1_usize..8).prop_map(Step::Send),
        8 => (any::<prop::sample::Index>(), 0_u8..12).prop_map(|(pick, kind)| Step::Answer(pick, kind)),
        1 => Just(Step::Outage),
        3 => Just(Step::Settle),
        4 => Just(Step::Pass),
        1 => Just(Step::Operate),
        1 => Just(Step::Restart),
        2 => (0_u64..6).prop_map(Step::Wait),
        1 => (0_u64..6000).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..400)
}

/// A row without a final verdict, or one that holds its key after it.
#[derive(Debug, Default)]
struct Row {
    attempts: u32,
    /// When it is to be tried again.
    due: Option<Instant>,
    holds_key: bool,
    has_failed: bool,
}

/// A pass that has read the table, and whose rows are on their way into memory.
struct Reading {
    left_out: Vec<KeyName>,
    holding: Vec<Holding>,
    rows: Vec<u128>,
}

/// The table, the broker and the clock around one dispatch.
struct World {
    dispatch: Dispatch,
    policy: Policy,
    now: Instant,
    next: u128,
    table: BTreeMap<u128, Row>,
    in_flight: Vec<u128>,
    unsettled: Vec<Settlement>,
    verdicts: Vec<u128>,
    /// Refused, or failed and holding: later events of the key may not leave.
    blocked: HashSet<u128>,
    reading: Option<Reading>,
    /// An operator has let a key go on.
    bell: bool,
    /// Events that have left at least once, and the last one of each key.
    left: HashSet<u128>,
    departed: HashMap<u128, u128>,
}

fn key(id: u128) -> Option<u128> {
    Some(id % (KEYS + 1)).filter(|key| *key < KEYS)
}

impl World {
    fn new(ordering: Ordering, hold_failed: bool) -> Self {
        let policy = Policy { ordering, retry: RETRY, retry_for: Duration::ZERO, hold_failed };
        Self {
            dispatch: Dispatch::new(LIMITS, policy),
            policy,
            now: Instant::now(),
            next: 0,
            table: BTreeMap::new(),
            in_flight: Vec::new(),
            unsettled: Vec::new(),
            verdicts: Vec::new(),
            blocked: HashSet::new(),
            reading: None,
            bell: false,
            left: HashSet::new(),
            departed: HashMap::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            // The stream waits for a pass.
            Step::Offer if self.dispatch.has_room() && self.reading.is_none() => {
                self.table.insert(self.next, Row::default());
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
                    7 => Outcome::Retry("later".into()),
                    _ => Outcome::Nacked("nack".into()),
                };
                self.answer(id, outcome);
            }
            Step::Answer(..) => {}
            Step::Outage => {
                self.dispatch.outage();
                self.in_flight.clear();
            }
            Step::Settle => self.settle(),
            Step::Pass => self.pass(),
            Step::Operate => self.operate(),
            Step::Restart => self.restart(),
            Step::Wait(millis) => self.now += Duration::from_millis(millis),
        }
        assert_eq!(self.dispatch.in_flight(), self.in_flight.len());
    }

    fn send(&mut self, max: usize) {
        for event in self.dispatch.next_batch(max, self.now) {
            let id = event.id.as_u128();
            assert!(!self.in_flight.contains(&id), "sent twice at a time");
            if let Some(own) = key(id).filter(|_| self.policy.ordering != Ordering::None) {
                let same_key = |other: &&u128| key(**other) == Some(own) && **other != id;
                if self.policy.ordering == Ordering::Strict {
                    assert!(!self.in_flight.iter().any(|other| same_key(&other)), "a strict key has two in flight");
                }
                let held_back = self.blocked.iter().filter(same_key).any(|blocker| *blocker < id);
                assert!(!held_back || self.blocked.contains(&id), "{id} left past an event that holds its key");
                // Later ones than those that have left, or one of them again.
                let last = self.departed.entry(own).or_insert(id);
                assert!(self.left.insert(id) <= (id >= *last), "{id} left for the first time after {last}");
                *last = id.max(*last);
            }
            self.in_flight.push(id);
        }
        self.dispatch.take_left_behind();
    }

    fn answer(&mut self, id: u128, outcome: Outcome) {
        let now = Now { instant: self.now, unix_us: 0 };
        let nacked = matches!(outcome, Outcome::Nacked(_));
        let Some((settlement, _)) = self.dispatch.answered(&Uuid::from_u128(id), outcome, now) else {
            assert!(nacked && self.policy.ordering == Ordering::Pipelined && key(id).is_some(), "{id} has no verdict");
            return;
        };
        if settlement.holds_key || settlement.status == Status::Pending {
            self.blocked.insert(id);
        } else {
            self.blocked.remove(&id);
        }
        if settlement.status != Status::Pending {
            self.verdicts.push(id);
        }
        self.unsettled.push(settlement);
    }

    /// Writes verdicts, and reads what is due.
    fn settle(&mut self) {
        if self.reading.is_some() {
            return; // one operation at a time
        }
        for Settlement { id, status, error, retry_in, holds_key } in self.unsettled.drain(..) {
            if status == Status::Pending || holds_key {
                let row = self.table.get_mut(&id.as_u128()).expect("it has no verdict yet");
                row.attempts += u32::from(error.is_some());
                row.due = retry_in.map(|wait| self.now + wait);
                row.holds_key = holds_key;
                row.has_failed = status == Status::Failed;
            } else {
                self.table.remove(&id.as_u128());
            }
            self.dispatch.settled(&id, false);
        }
        let due = self.table.iter().filter(|(_, row)| row.due.is_some_and(|due| due <= self.now) && !row.has_failed);
        for (&id, row) in due {
            if self.dispatch.has_room() {
                self.dispatch.admit(Event { attempts: row.attempts, holds_key: row.holds_key, ..event(id) }, None);
            }
        }
    }

    /// Reads the table when that is wanted, or takes up what was read.
    fn pass(&mut self) {
        match self.reading.take() {
            Some(reading) => self.take_up(reading),
            None if self.bell || self.dispatch.wants_refill() => self.read(),
            None => {}
        }
    }

    fn read(&mut self) {
        self.bell = false;
        self.dispatch.begin_pass();
        let known = self.dispatch.known(-1);
        let left_out = self.dispatch.full_keys();
        let name = |id: u128| KeyName { aggregate_type: None, aggregate_id: (id % (KEYS + 1)).to_string() };
        let holding: Vec<Holding> = self
            .table
            .iter()
            .filter(|(_, row)| row.holds_key)
            .map(|(&id, _)| Holding { key: name(id), id: Uuid::from_u128(id) })
            .collect();
        let is_left_out = |id: u128| {
            key(id).is_some() && (left_out.contains(&name(id)) || holding.iter().any(|holding| holding.key == name(id)))
        };
        let is_owed =
            |id: u128, row: &Row| row.due.is_none() && !is_left_out(id) && !known.contains(&Uuid::from_u128(id));
        let rows = self.table.iter().filter(|(id, row)| is_owed(**id, row)).map(|(id, _)| *id).collect();
        self.reading = Some(Reading { left_out, holding, rows });
    }

    fn take_up(&mut self, Reading { left_out, holding, rows }: Reading) {
        self.dispatch.learn_holding(&holding);
        self.dispatch.unspill(&left_out);
        for id in rows {
            self.dispatch.admit(event(id), None);
        }
    }

    /// An operator lets every key go on that a failed event holds.
    fn operate(&mut self) {
        let has_failed = |row: &Row| row.has_failed;
        let released: Vec<u128> = self.table.iter().filter(|(_, row)| has_failed(row)).map(|(&id, _)| id).collect();
        for id in &released {
            self.table.remove(id);
            self.blocked.remove(id);
        }
        self.bell |= !released.is_empty();
    }

    /// The relay dies and another one begins with the table.
    fn restart(&mut self) {
        self.in_flight.clear();
        for settlement in self.unsettled.drain(..) {
            self.verdicts.retain(|id| *id != settlement.id.as_u128()); // they were never written
            self.blocked.remove(&settlement.id.as_u128());
        }
        for (&id, row) in &self.table {
            if row.holds_key {
                self.blocked.insert(id);
            }
        }
        self.dispatch = Dispatch::new(LIMITS, self.policy);
        self.read();
        self.pass();
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            if self.table.is_empty() {
                return;
            }
            self.now += Duration::from_secs(6); // longer than any pause
            self.send(usize::MAX);
            while let Some(id) = self.in_flight.pop() {
                self.answer(id, Outcome::Delivered);
            }
            self.settle();
            self.pass();
            self.operate();
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

fn run(ordering: Ordering, hold_failed: bool, steps: Vec<Step>) -> World {
    let mut world = World::new(ordering, hold_failed);
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

/// What a pass leaves out, since it is in memory, can go back to the table before the pass has ended.
#[test]
fn an_event_that_goes_back_to_the_table_behind_a_pass_is_found_by_the_next() {
    let mut world = World::new(Ordering::Pipelined, true);
    (0..=2 * (KEYS + 1)).for_each(|_| world.step(Step::Offer));
    world.send(usize::MAX);
    world.in_flight.retain(|id| *id != 0);
    world.answer(0, Outcome::Rejected("no".into()));
    world.settle();
    world.operate();
    world.pass(); // has read that the key goes on
    world.step(Step::Outage);
    world.send(usize::MAX); // the key is still held back, as far as memory knows
    world.pass();
    world.drain();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_strict_keys_verdicts_come_in_order_whatever_happens(steps in steps(), hold_failed: bool) {
        let world = run(Ordering::Strict, hold_failed, steps);
        for (key, verdicts) in verdicts_by_key(&world.verdicts) {
            prop_assert!(verdicts.is_sorted(), "key {key}: {verdicts:?}");
        }
    }

    #[test]
    fn a_pipelined_key_holds_what_comes_after_a_refused_event(steps in steps(), hold_failed: bool) {
        run(Ordering::Pipelined, hold_failed, steps);
    }

    #[test]
    fn without_ordering_every_event_gets_its_verdict(steps in steps(), hold_failed: bool) {
        run(Ordering::None, hold_failed, steps);
    }
}
