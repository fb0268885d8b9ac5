//! The world of one run: a clock that jumps to the next item of the agenda, one thread, everything from the seed.

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use fastrand::Rng;
use outbox_core::{Now, Status};

use crate::{
    agenda::{Agenda, What},
    broker::Broker,
    checker::{Checker, Promise, Violation, time},
    database::{Database, Micros, Row},
    knobs::{Knobs, Trouble},
    relay::{Operation, Relay},
};

/// Longest time after the end of all troubles until everything has its verdict.
const SETTLES_WITHIN: Micros = 120_000_000;
/// Most steps of a run.
const MOST_STEPS: u64 = 2_000_000;

/// Each part has dice of its own, so that switching one off changes nothing for the others.
#[derive(Clone)]
pub(crate) struct Dice {
    pub(crate) clients: Rng,
    pub(crate) troubles: Rng,
    pub(crate) network: Rng,
    pub(crate) relays: Rng,
    /// Whether every order of steps is searched, so that nothing but times is drawn.
    pub(crate) is_searched: bool,
}

impl Dice {
    fn of(seed: u64) -> Self {
        let dice = |salt: u64| Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt);
        Self { clients: dice(1), troubles: dice(2), network: dice(3), relays: dice(4), is_searched: false }
    }

    /// Draws how many of something happen at once. In a search it is the fewest, since the next one is another step.
    pub(crate) fn some(&mut self, range: RangeInclusive<usize>) -> usize {
        if self.is_searched { *range.start() } else { self.network.usize(range) }
    }
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) knobs: Knobs,
    pub(crate) now: Micros,
    pub(crate) base: Instant,
    pub(crate) agenda: Agenda,
    pub(crate) db: Database,
    pub(crate) broker: Broker,
    pub(crate) relays: Vec<Relay>,
    pub(crate) operations: BTreeMap<u64, Operation>,
    next_number: u64,
    pub(crate) dice: Dice,
    pub(crate) checker: Checker,
    pub(crate) emitted: usize,
    pub(crate) is_healed: bool,
    healed_at: Micros,
    /// The lines of the run's story; `None`: it is not kept.
    pub(crate) story: Option<Vec<String>>,
}

/// The result of a run.
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

/// Runs these knobs; the outcome has a story only if `keeps_story`.
pub fn run(knobs: &Knobs, keeps_story: bool) -> Outcome {
    let mut world = World::new(knobs.clone(), keeps_story);
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
    fn new(knobs: Knobs, keeps_story: bool) -> Self {
        // In every second run transaction ids are about to wrap around at 32 bits.
        let first_xid = if knobs.seed.is_multiple_of(2) { 1000 } else { (1 << 32) - 20 };
        let mut world = Self::empty(knobs, first_xid, keeps_story);
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

    /// A world in which nothing is going to happen.
    pub(crate) fn empty(knobs: Knobs, first_xid: u64, keeps_story: bool) -> Self {
        Self {
            now: 0,
            base: Instant::now(),
            agenda: Agenda::default(),
            db: Database::new(first_xid),
            broker: Broker::new(knobs.abilities.ordered),
            relays: (0..knobs.relays).map(Relay::new).collect(),
            operations: BTreeMap::new(),
            next_number: 0,
            dice: Dice::of(knobs.seed),
            checker: Checker::default(),
            emitted: 0,
            is_healed: false,
            healed_at: 0,
            story: keeps_story.then(Vec::new),
            knobs,
        }
    }

    /// Takes the next item of the agenda. Returns whether the run goes on.
    pub(crate) fn step(&mut self) -> bool {
        let Some((at, what)) = self.agenda.take() else { return false };
        debug_assert!(at >= self.now, "time does not go back");
        self.now = at;
        if let Some(relay) = what.relay() {
            // A frozen process does nothing; items for it wait until it thaws.
            let thaws_at = self.relays.get(relay).map_or(0, |relay| relay.frozen_until);
            if thaws_at > self.now {
                self.at(thaws_at, what);
                return true;
            }
        }
        self.happen(what)
    }

    /// An item of the agenda happens. Returns whether the run goes on.
    pub(crate) fn happen(&mut self, what: What) -> bool {
        match what {
            What::Emit => self.emit(),
            What::Commit(xid) => self.end(xid),
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
            What::Lost(relay, session, connection, why, may_be_a_message) => {
                self.lost(relay, session, connection, why, may_be_a_message);
            }
            What::Drain(relay, session) => self.drain(relay, session),
            What::Blocked(relay, session, connection, is_blocked) => {
                self.blocked(relay, session, connection, is_blocked);
            }
            What::Keepalive(relay, session) => self.keepalive(relay, session),
            What::CreateSlot(relay, session, older) => self.create_slot(relay, session, older),
            What::FreeSlot(session) => self.free_slot(session),
            What::LookAtSlot(relay, session) => self.look_at_slot(relay, session),
            What::SlotSeen(relay, session, size) => self.slot_seen(relay, session, size),
            What::Execute(operation) => self.execute(operation),
            What::Finish(operation) => self.finish(operation),
            What::Acknowledge(session, position) => self.acknowledged(session, position),
            What::Step(connection) => self.step_connection(connection),
            What::GiveUp(connection, seq) => self.give_up(connection, seq),
            What::Answers(relay, session, connection) => self.answers(relay, session, connection),
            What::Look => return self.look(),
        }
        true
    }

    /// Ends the troubles at the first call, and then looks whether all is done. Returns whether the run goes on.
    fn look(&mut self) -> bool {
        if !self.is_healed {
            self.is_healed = true;
            self.healed_at = self.now;
            self.log("world", || "troubles end".to_owned());
            self.heal();
        }
        self.release_all();
        if self.is_done(self.db.wal.last().map_or(0, |entry| entry.end)) {
            let unwritten = self.relays.iter().map(|relay| relay.most_unwritten).max().unwrap_or(0);
            self.checker.at_the_end(&self.knobs, &self.db, &self.broker, unwritten);
            return false;
        }
        if self.now > self.healed_at + SETTLES_WITHIN {
            let stuck = self.what_is_missing();
            self.checker.fail(Promise::Verdict, stuck.0, stuck.1);
        }
        // If all pending events end connections, only another event can show that the broker takes messages.
        let is_pending = |row: &Row| row.status == Status::Pending && row.emitted.is_ender;
        if self.db.rows.values().any(is_pending) {
            self.emit_another();
        }
        self.later(250_000, What::Look);
        true
    }

    /// Whether everything has its verdict, and the slot has moved to `end`.
    pub(crate) fn is_done(&self, end: u64) -> bool {
        self.emitted >= self.knobs.transactions
            && self.db.open.is_empty()
            && self.db.hidden.is_empty()
            && self.db.rows.values().all(|row| row.status != Status::Pending)
            && self.db.slot.as_ref().is_some_and(|slot| slot.confirmed >= end)
            && self.relays.iter().filter_map(|relay| relay.session.as_ref()).any(|session| session.core.is_live())
    }

    /// What keeps the run from its end: the event, if there is one, and a sentence.
    pub(crate) fn what_is_missing(&self) -> (Option<i64>, String) {
        if let Some(row) = self.db.rows.values().find(|row| row.status == Status::Pending) {
            return (Some(row.emitted.seq), format!("long after all troubles it is still PENDING: {row:?}"));
        }
        (None, format!("long after all troubles the slot is {:?}, the WAL ends at {}", self.db.slot, self.db.wal_end))
    }

    pub(crate) fn later(&mut self, after: Micros, what: What) {
        self.at(self.now + after, what);
    }

    pub(crate) fn at(&mut self, at: Micros, what: What) {
        self.agenda.put(at, what);
    }

    /// The time by a relay's clocks.
    pub(crate) fn clocks(&self) -> Now {
        Now { instant: self.base + Duration::from_micros(self.now), unix_us: self.now as i64 }
    }

    /// Draws the time that a message takes between two machines.
    pub(crate) fn way(&mut self) -> Micros {
        self.dice.network.u64(1..=micros(self.knobs.latency).max(2))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn has(&self, trouble: Trouble) -> bool {
        !self.is_healed && self.knobs.has(trouble)
    }

    pub(crate) fn log(&mut self, who: &str, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(format!("{}  {who:<9} {}", time(self.now), what()));
        }
    }
}

pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
