//! The small world: one relay, one database, one broker, and the steps that each can take.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use outbox_core::{
    Backoff, Config, Core, Effect, Finished, Input, Kind, Limits, Lsn, Marked, Marks, Notice, Now, Ordering, Policy,
    Request, Start, Status, Streamed,
};

use super::{Step, broker::Broker};
use crate::{
    database::{Change, Database, Emitted, Slot},
    relay::Inserted,
};

/// Transaction ids and WAL positions begin far from 0, which means "none" in some places.
const FIRST_XID: u64 = 1_000_000;
const FIRST_LSN: u64 = 2_000_000;
/// Past times are told apart at these pauses: the one between status updates, and `park_after`.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// After this many ticks with nothing else to do, the world has come to its end.
const IDLE_TICKS: u8 = 12;

#[derive(Clone, Debug)]
pub(super) struct Small {
    base: Instant,
    now: Duration,
    core: Core,
    db: Database,
    /// Transactions that have yet to commit, in order.
    coming: VecDeque<u64>,
    next_entry: usize,
    /// How far the relay knows that the WAL was sent.
    sent_to: u64,
    was_described: bool,
    request: Option<Request>,
    finished: Option<Finished>,
    broker: Broker,
    /// The steps that may happen once, and those of them that have happened.
    mishaps: Vec<Step>,
    happened: Vec<Step>,
    ticks: u8,
}

impl Small {
    pub(super) fn new(mishaps: &[Step], is_log: bool) -> Self {
        let mut db = Database::new(FIRST_XID);
        (db.wal_end, db.flushed) = (FIRST_LSN, FIRST_LSN);
        db.slot = Some(Slot { confirmed: FIRST_LSN, reader: None, is_created: true, kept_from: None });
        let mut coming = VecDeque::new();
        for key in [0, 0, 1] {
            let xid = db.begin();
            let (seq, key) = (db.next_seq(), Some(key));
            let emitted = Emitted {
                seq,
                key,
                topic: 0,
                is_poison: false,
                is_ender: false,
                is_oversized: false,
                is_too_large: false,
                is_deferred: false,
                is_published: true,
            };
            db.open.entry(xid).and_modify(|open| open.changes.push(Change::Insert(emitted, None)));
            coming.push_back(xid);
        }
        let base = Instant::now();
        let broker = Broker::new(is_log);
        let start = Start {
            confirmed: Lsn(FIRST_LSN),
            broker_away_since: Some(base),
            abilities: broker.abilities(),
            ..Start::default()
        };
        let mut world = Self {
            base,
            now: Duration::ZERO,
            core: Core::new(config(), start, base),
            db,
            coming,
            next_entry: 0,
            sent_to: FIRST_LSN,
            was_described: false,
            request: None,
            finished: None,
            broker,
            mishaps: mishaps.to_vec(),
            happened: Vec::new(),
            ticks: 0,
        };
        world.carry_out();
        world
    }

    fn clocks(&self) -> Now {
        Now { instant: self.base + self.now, unix_us: 0 }
    }

    /// The steps that are possible. The clock goes on only if no other is.
    pub(super) fn steps(&self) -> Vec<Step> {
        let reads = self.core.reads_stream(self.clocks().instant);
        let first_is_sent = self.db.rows.get(&1).is_some_and(|row| row.status == Status::Sent);
        let once = |step: Step| {
            self.mishaps.contains(&step) && !self.happened.contains(&step) && self.ticks == 0 && self.coming.len() < 3
        };
        // The second event of the key follows the first: its transaction commits once the first is visible.
        let may_commit = !self.coming.is_empty() && (self.coming.len() != 2 || self.db.rows.contains_key(&1));
        let possible = [
            (Step::Commit, may_commit),
            (Step::Show, !self.db.hidden.is_empty()),
            (Step::Read, reads && (self.next_entry < self.db.wal.len() || self.sent_to < self.db.flushed)),
            (Step::Execute, self.request.is_some()),
            (Step::Finish, self.finished.is_some()),
            (Step::Take, self.broker.has_messages()),
            (Step::Answer, self.broker.has_answers()),
            (Step::Connect, !self.broker.is_connected),
        ];
        let mut steps: Vec<Step> = possible.into_iter().filter_map(|(step, may)| may.then_some(step)).collect();
        if steps.is_empty() && self.ticks < IDLE_TICKS {
            steps.push(Step::Tick);
        }
        let possible = [
            (Step::Crash, true),
            (Step::Cut, self.broker.is_connected),
            (Step::Refuse, self.broker.is_log() && self.broker.has_messages()),
            (Step::Forget, self.broker.is_log() && self.broker.is_connected),
            (Step::Replay, first_is_sent),
            (Step::Wait, steps != [Step::Tick]),
        ];
        steps.extend(possible.into_iter().filter_map(|(step, may)| (may && once(step)).then_some(step)));
        steps
    }

    pub(super) fn take(&mut self, step: Step) -> Result<(), String> {
        self.ticks = if step == Step::Tick { self.ticks + 1 } else { 0 };
        if Step::MISHAPS.contains(&step) {
            self.happened.push(step);
            self.happened.sort_by_key(|step| *step as u8);
        }
        let now = self.clocks();
        match step {
            Step::Commit => {
                if let Some(xid) = self.coming.pop_front() {
                    self.db.commit(xid, false, false, 0);
                }
            }
            Step::Show => {
                if let Some(xid) = self.db.hidden.keys().next().copied() {
                    self.db.show(xid);
                }
            }
            Step::Read => self.read(),
            Step::Execute => {
                if let Some(request) = self.request.take() {
                    let executed = self.db.execute(request, 0);
                    let delivered = &self.broker.delivered;
                    let is_early = |(seq, status): &&(i64, Status)| *status == Status::Sent && !delivered.contains(seq);
                    if let Some((seq, _)) = executed.written.iter().find(is_early) {
                        return Err(format!("{seq} is SENT, and was not delivered"));
                    }
                    self.finished = Some(executed.finished);
                }
            }
            Step::Finish => {
                if let Some(finished) = self.finished.take() {
                    self.core.on(Input::Table(finished), now);
                }
            }
            Step::Take => self.broker.take()?,
            Step::Refuse => self.broker.refuse(),
            Step::Answer => {
                let outcomes = self.broker.answers();
                self.core.on(Input::Sink(Notice::Outcomes(outcomes)), now);
            }
            Step::Connect => {
                let is_new_identity = self.broker.connect();
                self.core.on(
                    Input::Sink(Notice::Ready {
                        host: String::new(),
                        is_proven: false,
                        is_new_identity,
                        side_channels: 0,
                    }),
                    now,
                );
            }
            Step::Cut | Step::Forget => {
                if step == Step::Cut {
                    self.broker.disconnect();
                } else {
                    self.broker.forget();
                }
                self.core.on(
                    Input::Sink(Notice::Away { error: "cut".to_owned(), since: now.instant, may_be_a_message: false }),
                    now,
                );
            }
            Step::Crash => self.crash(),
            Step::Replay => {
                let xid = self.db.begin();
                self.db.open.entry(xid).and_modify(|open| open.changes.push(Change::Replay(1, true)));
                self.db.commit(xid, false, false, 0);
            }
            Step::Wait => self.now += config().park_after * 2,
            Step::Tick => self.now = self.core.wake_at(now.instant) - self.base,
        }
        self.carry_out();
        self.forget_wal();
        Ok(())
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.core.next(self.clocks()) {
            match effect {
                Effect::Publish { batch, beside } => {
                    assert!(beside.is_empty(), "no destination is silent");
                    self.broker.publish(batch);
                }
                Effect::Table(request) => self.request = Some(request),
                Effect::Acknowledge(position) => {
                    if let Some(slot) = &mut self.db.slot {
                        slot.confirmed = slot.confirmed.max(position.0);
                    }
                }
                Effect::LookAtSlot { .. } => {} // never answered: the slot's size is bounded here
                Effect::ReadBack { .. } => self.broker.read_back(),
                Effect::ConnectAnew => panic!("no destination is silent"),
                Effect::Report(_) | Effect::End(_) => {}
            }
        }
    }

    fn read(&mut self) {
        let now = self.clocks();
        let Some(entry) = self.db.wal.get(self.next_entry).cloned() else {
            self.sent_to = self.db.flushed;
            let keepalive = Streamed::Keepalive { wal_end: Lsn(self.sent_to), reply_requested: false };
            return self.core.on(Input::Stream(keepalive), now);
        };
        self.next_entry += 1;
        let begin = Streamed::Begin { xid: entry.xid as u32, final_lsn: Lsn(entry.lsn) };
        self.core.on(Input::Stream(begin), now);
        for emitted in entry.inserts {
            if !std::mem::replace(&mut self.was_described, true) {
                self.core.on(Input::Stream(Streamed::TableDescribed), now);
            }
            self.core.on(Input::Stream(Streamed::Insert(&Inserted { emitted, until: None })), now);
        }
        if entry.has_message {
            self.core.on(Input::Stream(Streamed::Replayed), now);
        }
        self.core.on(Input::Stream(Streamed::Commit { end_lsn: Lsn(entry.end) }), now);
    }

    /// Forgets the part of the WAL that cannot be sent any more. It keeps the commits that insert or replay, from the
    /// slot's position on, since only they are part of the state.
    fn forget_wal(&mut self) {
        let confirmed = self.db.slot.as_ref().map_or(0, |slot| slot.confirmed);
        let mut read = std::mem::take(&mut self.next_entry);
        self.db.wal.retain(|entry| {
            let was_read = read > 0;
            read = read.saturating_sub(1);
            let is_sent = !entry.inserts.is_empty() || entry.has_message;
            let stays = is_sent && !(was_read && entry.end <= confirmed);
            self.next_entry += usize::from(stays && was_read);
            stays
        });
    }

    fn crash(&mut self) {
        self.broker.crash();
        (self.request, self.finished, self.was_described) = (None, None, false);
        let confirmed = self.db.slot.as_ref().map_or(0, |slot| slot.confirmed);
        self.next_entry = self.db.wal.partition_point(|entry| entry.end <= confirmed);
        self.sent_to = confirmed;
        let now = self.clocks().instant;
        let start = Start {
            confirmed: Lsn(confirmed),
            broker_away_since: Some(now),
            abilities: self.broker.abilities(),
            last_settled_us: self.db.last_settled().map(|settled| settled as i64),
            ..Start::default()
        };
        self.core = Core::new(config(), start, now);
    }

    pub(super) fn at_the_end(&self) -> Option<String> {
        if let Some(row) = self.db.rows.values().find(|row| row.status != Status::Sent) {
            return Some(format!("in the end it is {}: {row:?}", row.status.as_str()));
        }
        let confirmed = self.db.slot.as_ref().map_or(0, |slot| slot.confirmed);
        let end = self.db.wal.last().map_or(0, |entry| entry.end);
        if confirmed < end || self.db.rows.len() < 3 {
            return Some(format!("in the end {} rows, the slot at {confirmed} of {end}", self.db.rows.len()));
        }
        None
    }

    /// A number that is the same for all states that are alike.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut marks = Marks::default();
        self.core.mark_state(&mut marks);
        (&self.db, (self.next_entry, self.sent_to < self.db.flushed)).mark(&mut marks);
        for xid in &self.coming {
            marks.counted(Kind::Xid, xid);
        }
        ((self.was_described, self.ticks), (&self.request, &self.finished)).mark(&mut marks);
        self.broker.mark(&mut marks);
        marks.text(&format!("{:?}", self.happened));
        marks.fingerprint(self.clocks().instant, &PAUSES)
    }
}

fn config() -> Config {
    Config {
        in_flight: 2,
        max_rate: None,
        limits: Limits { max_events: 10, max_bytes: 1 << 20 },
        policy: Policy {
            ordering: Ordering::Strict,
            backoff: Backoff { base: Duration::from_millis(10), max: Duration::from_secs(1) },
            max_attempts: 3,
            retry_for: Duration::ZERO,
            hold_failed: true,
        },
        settle_batch: 2,
        settle_interval: Duration::ZERO,
        park_after: Duration::from_secs(1),
        silent_after: Duration::from_secs(400_000), // so that there is no look
        confirm_timeout: Duration::from_secs(30),
        max_slot_wal: None,
        check_interval: Duration::from_secs(3600),
        drain_timeout: Duration::from_secs(5),
        status_interval: Duration::from_secs(10),
        stands_still_after: Duration::from_secs(100_000),
        repairs_publication: true,
        reports_delivered: false,
    }
}
