//! The small world: what can happen next.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    time::Duration,
};

use outbox_core::{Abilities, Config, Limits, Marked, Marks, Status, samples};

use super::Mishap;
use crate::{
    agenda::What,
    broker::{Connection, Queue},
    checker::{Promise, Violation},
    database::{Emitted, Slot},
    knobs::Knobs,
    relay::Session,
    world::World,
};

/// Transaction ids and WAL positions begin far from 0, which means "none" in some places.
const FIRST_XID: u64 = 1_000_000;
const FIRST_LSN: u64 = 2_000_000;
/// Past times are told apart at these pauses: the one between status updates, and `park_after`.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// After this many ticks with nothing else to do, the world has come to its end.
const IDLE_TICKS: u8 = 12;

/// A step of the small world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The item with this number comes next.
    Next(usize),
    Mishap(Mishap),
    /// Time passes until the relay wants to be woken.
    Tick,
}

/// When an item of the agenda happens.
enum When {
    /// At once: its moment makes no difference, or nothing comes of it.
    Now,
    /// In any order with others.
    Any,
    Never,
}

/// The clocks of the database and the broker stand still; only the relay's goes on.
#[derive(Clone)]
pub(super) struct Small {
    world: World,
    /// Items of the agenda that wait for their turn.
    items: Vec<What>,
    /// How far the relay knows that the WAL was sent.
    sent_to: u64,
    /// What may happen once, and what of that has happened.
    mishaps: Vec<Mishap>,
    happened: BTreeSet<Mishap>,
    ticks: u8,
}

impl Small {
    pub(super) fn new(mishaps: &[Mishap], is_log: bool, keeps_story: bool) -> Self {
        let mut world = World::empty(knobs(is_log), FIRST_XID, keeps_story);
        world.dice.is_searched = true;
        (world.db.wal_end, world.db.flushed) = (FIRST_LSN, FIRST_LSN);
        world.db.slot = Some(Slot { confirmed: FIRST_LSN, reader: None, is_created: true, kept_from: None });
        for key in [0, 0, 1] {
            let xid = world.db.begin();
            world.insert(xid, Emitted { key: Some(key), is_published: true, ..Emitted::default() }, None);
            world.later(0, What::Commit(xid));
        }
        world.checker.fact(2).before = vec![1];
        world.later(0, What::Start(0));
        let (mishaps, happened) = (mishaps.to_vec(), BTreeSet::new());
        let mut small = Self { world, items: Vec::new(), sent_to: FIRST_LSN, mishaps, happened, ticks: 0 };
        small.settle();
        small
    }

    fn session(&self) -> Option<&Session> {
        self.world.relays[0].session.as_ref()
    }

    /// The session's connection, with its number.
    fn connection(&self) -> Option<(u64, &Connection)> {
        let number = self.session()?.connection?;
        Some((number, self.world.broker.connections.get(&number)?))
    }

    /// Takes over the items of the agenda, and lets happen what happens at once.
    fn settle(&mut self) {
        loop {
            self.items.extend(self.world.agenda.drain());
            let items = std::mem::take(&mut self.items);
            self.items = items.into_iter().filter(|item| !matches!(self.when(item), When::Never)).collect();
            let Some(now) = self.items.iter().position(|item| matches!(self.when(item), When::Now)) else { return };
            let item = self.items.remove(now);
            self.world.happen(item);
        }
    }

    fn when(&self, item: &What) -> When {
        let (session, connection) = (self.session(), self.connection());
        let is_own = |id: &u64| session.is_some_and(|session| session.id == *id);
        let is_open = |number: &u64| connection.is_some_and(|(own, _)| own == *number);
        match item {
            What::Commit(_) | What::Show(_) => When::Any,
            What::Start(_) | What::FreeSlot(_) | What::Acknowledge(..) => When::Now,
            What::Read(_, id) if is_own(id) && self.reads() => When::Any,
            What::Step(number) if is_open(number) && self.has_messages() => When::Any,
            What::Read(_, id) if is_own(id) => When::Now,
            What::Step(number) if is_open(number) => When::Now,
            What::Connect(_, id) | What::Keepalive(_, id) | What::Lost(_, id, ..) if is_own(id) => When::Any,
            What::Execute(number) | What::Finish(number) if self.world.operations.contains_key(number) => When::Any,
            What::Answers(_, id, number) if is_own(id) && is_open(number) => When::Any,
            // The relay is woken by a tick, and the slot's size is bounded here.
            _ => When::Never,
        }
    }

    /// Whether the relay reads the stream, which has more.
    fn reads(&self) -> bool {
        let now = self.world.clocks().instant;
        self.session().is_some_and(|session| session.core.reads_stream(now) && session.is_behind(&self.world.db.wal))
    }

    fn has_messages(&self) -> bool {
        self.connection().is_some_and(|(_, open)| !open.on_the_way.is_empty())
    }

    /// Whether the item can be next.
    fn may_be_next(&self, item: &What) -> bool {
        let (db, now) = (&self.world.db, self.world.clocks().instant);
        match item {
            // The second event of the key follows the first: its transaction commits once the first is visible.
            What::Commit(xid) => db.open.keys().next() == Some(xid) && (db.open.len() != 2 || db.rows.contains_key(&1)),
            What::Show(xid) => db.hidden.keys().next() == Some(xid),
            What::Keepalive(..) => {
                let has_all = |session: &Session| session.core.reads_stream(now) && !session.is_behind(&db.wal);
                self.sent_to < db.flushed && self.session().is_some_and(has_all)
            }
            _ => true,
        }
    }

    /// The steps that are possible. The clock goes on only if no other is.
    pub(super) fn steps(&self) -> Vec<Step> {
        let numbered = self.items.iter().enumerate();
        let next = numbered.filter(|(_, item)| self.may_be_next(item)).map(|(number, _)| Step::Next(number));
        let mut steps: Vec<Step> = next.collect();
        if steps.is_empty() && self.ticks < IDLE_TICKS {
            steps.push(Step::Tick);
        }
        if self.ticks == 0 && self.world.db.open.len() < 3 {
            let may = |mishap: &&Mishap| !self.happened.contains(mishap) && self.may(**mishap, &steps);
            steps.extend(self.mishaps.iter().filter(may).map(|mishap| Step::Mishap(*mishap)).collect::<Vec<_>>());
        }
        steps
    }

    fn may(&self, mishap: Mishap, steps: &[Step]) -> bool {
        let is_log = self.world.broker.log.is_some();
        match mishap {
            Mishap::Crash => true,
            Mishap::Cut => self.connection().is_some(),
            Mishap::Refuse => is_log && self.has_messages(),
            Mishap::Forget => is_log && self.connection().is_some(),
            Mishap::Replay => self.world.db.rows.get(&1).is_some_and(|row| row.status == Status::Sent),
            Mishap::Wait => *steps != [Step::Tick],
        }
    }

    pub(super) fn take(&mut self, step: Step) -> Result<(), Violation> {
        self.ticks = if step == Step::Tick { self.ticks + 1 } else { 0 };
        match step {
            Step::Next(number) => match self.items.remove(number) {
                What::Commit(xid) => self.world.commit(xid, false, false, 0),
                item => {
                    if matches!(item, What::Keepalive(..)) {
                        self.sent_to = self.world.db.flushed;
                    }
                    self.world.happen(item);
                }
            },
            Step::Mishap(mishap) => {
                self.happened.insert(mishap);
                self.go_wrong(mishap);
            }
            Step::Tick => {
                let now = self.world.clocks().instant;
                let wake_at = self.session().map_or(now, |session| session.core.wake_at(now));
                self.pass(wake_at - now);
            }
        }
        self.settle();
        self.world.checker.violation.clone().map_or(Ok(()), Err)
    }

    fn go_wrong(&mut self, mishap: Mishap) {
        let connection = self.connection().map(|(number, _)| number);
        match (mishap, connection) {
            (Mishap::Crash, _) => {
                self.world.kill(0);
                self.sent_to = self.world.db.slot.as_ref().map_or(0, |slot| slot.confirmed);
            }
            (Mishap::Cut, Some(connection)) => self.world.cut(connection, "the line is cut", false),
            (Mishap::Forget, Some(connection)) => {
                self.world.forget_publisher(connection, "the broker has forgotten the publisher");
            }
            (Mishap::Refuse, Some(connection)) => {
                self.items.retain(|item| !matches!(item, What::Step(_)));
                self.world.broker.queues[0] = Queue::Missing;
                self.world.step_connection(connection);
                self.world.broker.queues[0] = Queue::Takes;
            }
            (Mishap::Replay, _) => {
                let xid = self.world.replay_row(1, true);
                self.world.commit(xid, false, false, 0);
            }
            (Mishap::Wait, _) => self.pass(self.world.knobs.config.park_after * 2),
            (Mishap::Cut | Mishap::Forget | Mishap::Refuse, None) => {}
        }
    }

    /// Time passes by the relay's clock.
    fn pass(&mut self, time: Duration) {
        self.world.base += time;
        self.world.turn(0);
    }

    /// What must hold once nothing more can happen.
    pub(super) fn at_the_end(&mut self) -> Result<(), Violation> {
        let streamed = self.world.db.wal.iter().rfind(|entry| entry.is_streamed());
        if !self.world.is_done(streamed.map_or(0, |entry| entry.end)) {
            let (seq, what) = self.world.what_is_missing();
            self.world.checker.fail(Promise::Verdict, seq, what);
        }
        self.world.checker.at_the_end(&self.world.knobs, &self.world.db, &self.world.broker, 0);
        self.world.checker.violation.clone().map_or(Ok(()), Err)
    }

    pub(super) fn story(self) -> Vec<String> {
        self.world.story.unwrap_or_default()
    }

    /// A number that is the same for all states that are alike.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut marks = Marks::default();
        self.world.mark(&mut marks);
        // Of the items their kinds count, in no order.
        let kind = |item: &What| BuildHasherDefault::<DefaultHasher>::default().hash_one(std::mem::discriminant(item));
        let kinds = self.items.iter().map(kind).fold(0, u64::wrapping_add);
        (kinds, (self.sent_to < self.world.db.flushed, self.ticks)).mark(&mut marks);
        marks.text(&format!("{:?}", self.happened));
        marks.fingerprint(self.world.clocks().instant, &PAUSES)
    }
}

fn knobs(is_log: bool) -> Knobs {
    let config = Config {
        in_flight: 2,
        limits: Limits { max_events: 10, max_bytes: 1 << 20 },
        settle_batch: 2,
        silent_after: Duration::from_secs(400_000), // so that there is no look
        stands_still_after: Duration::from_secs(100_000),
        ..samples::config()
    };
    Knobs::calm(config, Abilities { ordered: is_log, reads_back: is_log, largest_message: None })
}
