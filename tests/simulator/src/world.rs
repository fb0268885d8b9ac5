//! The world of one run: a clock that jumps to whatever happens next, one thread, everything from the seed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::{Duration, Instant},
};

use fastrand::Rng;
use outbox_core::{Now, Request};

use crate::{
    broker::Broker,
    checker::{Checker, Promise, Violation, time},
    database::{Database, Executed, Micros},
    knobs::{Knobs, Trouble},
    relay::Relay,
    troubles::Undo,
};

/// Once troubles have ended, everything has its verdict within so long.
const SETTLES_WITHIN: Micros = 120_000_000;
/// No run takes more steps.
const MOST_STEPS: u64 = 2_000_000;

/// Something that is going to happen.
#[derive(Debug)]
pub(crate) enum What {
    /// A client begins a transaction.
    Emit,
    Commit(u64),
    Show(u64),
    Flush,
    Trouble,
    Undo(Undo),
    /// A relay's process starts, or connects again.
    Start(usize),
    Wake(usize, u64, u64),
    Read(usize, u64),
    Connect(usize, u64),
    Lost(usize, u64, &'static str),
    Drain(usize, u64),
    Blocked(usize, u64, u64, bool),
    Keepalive(usize, u64),
    /// The server notices that a reader of the slot is gone.
    FreeSlot(u64),
    Execute(u64),
    Finish(u64),
    Acknowledge(u64, u64),
    /// A connection's next message reaches the broker; its answers reach the relay.
    Step(u64),
    Answers(usize, u64, u64),
    Look,
}

struct Item {
    at: Micros,
    number: u64,
    what: What,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// An operation on the table that is under way.
pub(crate) struct Operation {
    pub(crate) relay: usize,
    pub(crate) session: u64,
    pub(crate) request: Option<Request>,
    pub(crate) executed: Option<Executed>,
}

/// What each part draws from, so that one that is switched off changes nothing for the others.
pub(crate) struct Dice {
    pub(crate) clients: Rng,
    pub(crate) troubles: Rng,
    pub(crate) network: Rng,
    pub(crate) relays: Rng,
}

pub(crate) struct World {
    pub(crate) knobs: Knobs,
    pub(crate) now: Micros,
    base: Instant,
    agenda: BinaryHeap<Reverse<Item>>,
    scheduled: u64,
    pub(crate) db: Database,
    pub(crate) broker: Broker,
    pub(crate) relays: Vec<Relay>,
    pub(crate) operations: BTreeMap<u64, Operation>,
    pub(crate) next_number: u64,
    pub(crate) dice: Dice,
    pub(crate) checker: Checker,
    pub(crate) emitted: usize,
    pub(crate) is_healed: bool,
    healed_at: Micros,
    /// What the run has to say, if it is to be told.
    story: Option<Vec<String>>,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub steps: u64,
    pub events: usize,
    pub delivered: usize,
    pub duplicates: u32,
    pub disruptions: u32,
    /// Virtual time.
    pub lasted: Duration,
    pub violation: Option<Violation>,
    pub story: Vec<String>,
}

/// Runs a seed.
pub fn run(knobs: &Knobs, tells: bool) -> Outcome {
    let mut world = World::new(knobs.clone(), tells);
    let mut steps = 0;
    while world.checker.violation.is_none() {
        steps += 1;
        if steps > MOST_STEPS {
            world.checker.fail(Promise::Sane, None, "the run does not end");
        }
        if !world.step() {
            break;
        }
    }
    Outcome {
        steps,
        events: world.checker.facts.values().filter(|fact| fact.is_committed).count(),
        delivered: world.broker.seen.values().filter(|seen| seen.accepted > 0).count(),
        duplicates: world.checker.duplicates,
        disruptions: world.checker.disruptions,
        lasted: Duration::from_micros(world.now),
        violation: world.checker.violation,
        story: world.story.unwrap_or_default(),
    }
}

impl World {
    fn new(knobs: Knobs, tells: bool) -> Self {
        let seed = knobs.seed;
        let dice = |salt: u64| Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt);
        // Some databases are close to where 32-bit transaction ids wrap around.
        let first_xid = if seed.is_multiple_of(2) { 1000 } else { (1 << 32) - 20 };
        let mut world = Self {
            now: 0,
            base: Instant::now(),
            agenda: BinaryHeap::new(),
            scheduled: 0,
            db: Database::new(first_xid),
            broker: Broker::new(),
            relays: (0..knobs.relays).map(Relay::new).collect(),
            operations: BTreeMap::new(),
            next_number: 0,
            dice: Dice { clients: dice(1), troubles: dice(2), network: dice(3), relays: dice(4) },
            checker: Checker::default(),
            emitted: 0,
            is_healed: false,
            healed_at: 0,
            story: tells.then(Vec::new),
            knobs,
        };
        for relay in 0..world.relays.len() {
            let after = world.dice.relays.u64(..100_000);
            world.later(after, What::Start(relay));
        }
        world.later(0, What::Emit);
        if !world.knobs.troubles.is_empty() {
            let pause = world.pause();
            world.later(pause, What::Trouble);
        }
        world.later(micros(world.knobs.span), What::Look);
        world
    }

    /// Takes the next thing that happens. Returns whether there was one, and the run is not over.
    fn step(&mut self) -> bool {
        let Some(Reverse(item)) = self.agenda.pop() else { return false };
        debug_assert!(item.at >= self.now, "time does not go back");
        self.now = item.at;
        if let Some(relay) = item.what.relay() {
            // A process that is stopped does nothing; what comes for it waits.
            let thaws_at = self.relays.get(relay).map_or(0, |relay| relay.frozen_until);
            if thaws_at > self.now {
                self.at(thaws_at, item.what);
                return true;
            }
        }
        match item.what {
            What::Emit => self.emit(),
            What::Commit(xid) => self.commit(xid),
            What::Show(xid) => self.show(xid),
            What::Flush => {
                self.db.flush();
                self.poke_all();
            }
            What::Trouble => self.trouble(),
            What::Undo(undo) => self.undo(undo),
            What::Start(relay) => self.start(relay),
            What::Wake(relay, session, turn) => self.wake(relay, session, turn),
            What::Read(relay, session) => self.read(relay, session),
            What::Connect(relay, session) => self.connect(relay, session),
            What::Lost(relay, session, why) => self.lost(relay, session, why),
            What::Drain(relay, session) => self.drain(relay, session),
            What::Blocked(relay, session, connection, is_blocked) => {
                self.blocked(relay, session, connection, is_blocked);
            }
            What::Keepalive(relay, session) => self.keepalive(relay, session),
            What::FreeSlot(session) => self.free_slot(session),
            What::Execute(operation) => self.execute(operation),
            What::Finish(operation) => self.finish(operation),
            What::Acknowledge(session, position) => self.acknowledged(session, position),
            What::Step(connection) => self.step_connection(connection),
            What::Answers(relay, session, connection) => self.answers(relay, session, connection),
            What::Look => return self.look(),
        }
        true
    }

    /// First the troubles end; from then on looks whether all is done.
    fn look(&mut self) -> bool {
        if !self.is_healed {
            self.is_healed = true;
            self.healed_at = self.now;
            self.tell("world", || "troubles end".to_owned());
            self.heal();
        }
        self.release_all();
        if self.is_done() {
            let unwritten = self.relays.iter().map(|relay| relay.most_unwritten).max().unwrap_or(0);
            self.checker.at_the_end(&self.knobs, &self.db, &self.broker, unwritten);
            return false;
        }
        if self.now > self.healed_at + SETTLES_WITHIN {
            let stuck = self.what_is_missing();
            self.checker.fail(Promise::Verdict, stuck.0, stuck.1);
        }
        self.later(250_000, What::Look);
        true
    }

    pub(crate) fn later(&mut self, after: Micros, what: What) {
        self.at(self.now + after, what);
    }

    pub(crate) fn at(&mut self, at: Micros, what: What) {
        self.scheduled += 1;
        self.agenda.push(Reverse(Item { at, number: self.scheduled, what }));
    }

    /// The time of a relay's clocks.
    pub(crate) fn clocks(&self) -> Now {
        #[expect(clippy::cast_possible_wrap, reason = "a run lasts minutes")]
        Now { instant: self.base + Duration::from_micros(self.now), unix_us: self.now as i64 }
    }

    /// A way from one machine to another.
    pub(crate) fn way(&mut self) -> Micros {
        self.dice.network.u64(1..=micros(self.knobs.latency).max(2))
    }

    pub(crate) fn pause(&mut self) -> Micros {
        self.dice.troubles.u64(1..=2 * micros(self.knobs.pause))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn has(&self, trouble: Trouble) -> bool {
        !self.is_healed && self.knobs.has(trouble)
    }

    pub(crate) fn tell(&mut self, who: &str, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(format!("{}  {who:<9} {}", time(self.now), what()));
        }
    }
}

impl What {
    /// The process to which it happens.
    fn relay(&self) -> Option<usize> {
        match self {
            Self::Start(relay)
            | Self::Wake(relay, ..)
            | Self::Read(relay, _)
            | Self::Connect(relay, _)
            | Self::Lost(relay, ..)
            | Self::Drain(relay, _)
            | Self::Blocked(relay, ..)
            | Self::Answers(relay, ..) => Some(*relay),
            _ => None,
        }
    }
}

pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
