//! Relays: processes that start, take the slot, drive a [`Core`] as the service's session does, and end in all ways.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use outbox_core::{Core, Effect, End, Event, Finished, Input, Lsn, Notice, Report, Start, Status, Streamed};
use uuid::Uuid;

use crate::{
    broker::Stepped,
    checker::Promise,
    database::{Change, Emitted, Entry, Micros, Slot, id_of, seq_of, streamed},
    knobs::Trouble,
    world::{Operation, What, World, micros},
};

/// The server ends a stream whose reader is silent for so long.
pub(crate) const TAKEOVER_AFTER: Micros = 6_000_000;
/// Messages of the stream that are read at a time.
const MESSAGES_AT_A_TIME: usize = 8;
/// The broker may leave everything unanswered for so long.
const CONFIRM_TIMEOUT: Micros = 3_000_000;

/// A relay's process.
pub(crate) struct Relay {
    pub(crate) name: String,
    pub(crate) session: Option<Session>,
    pub(crate) frozen_until: Micros,
    /// Starts and connects in a row that came to nothing.
    failures: u32,
    /// The stream cannot go on where it was.
    must_pass_over: bool,
    pub(crate) most_unwritten: usize,
}

pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) core: Core,
    /// The next entry of the log that is sent.
    next_entry: usize,
    messages: VecDeque<Message>,
    /// The publication with which the table was described last.
    described: Option<u64>,
    pub(crate) connection: Option<u64>,
    connects: u32,
    turn: u64,
    is_reading: bool,
    pub(crate) is_draining: bool,
    /// The first entry that was read since the core is live.
    live_from: Option<usize>,
    read_to: usize,
    /// When the database last gave trouble.
    calm_since: Micros,
    was_nacked: bool,
    /// Events that a scan brought: their commits may have been left to the table before.
    from_table: BTreeSet<i64>,
}

#[derive(Clone, Debug)]
enum Message {
    Begin(u32, u64),
    Described,
    Insert(Inserted),
    TooLarge,
    Replayed,
    Commit(u64, usize),
    Keepalive(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Inserted {
    pub(crate) emitted: Emitted,
    pub(crate) until: Option<Micros>,
}

impl outbox_core::Row for Inserted {
    fn id(&self) -> Result<Uuid, String> {
        Ok(id_of(self.emitted.seq))
    }

    fn is_pending(&self) -> bool {
        true
    }

    fn is_deferred(&self) -> bool {
        self.until.is_some()
    }

    fn event(&self) -> Result<Event, String> {
        Ok(streamed(&self.emitted))
    }
}

impl Relay {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            name: format!("relay {}", number + 1),
            session: None,
            frozen_until: 0,
            failures: 0,
            must_pass_over: false,
            most_unwritten: 0,
        }
    }
}

impl World {
    fn session(&mut self, relay: usize, session: u64) -> Option<&mut Session> {
        self.relays.get_mut(relay)?.session.as_mut().filter(|found| found.id == session)
    }

    fn say(&mut self, relay: usize, what: impl FnOnce() -> String) {
        let name = self.relays[relay].name.clone();
        self.tell(&name, what);
    }

    /// Connects, and takes the slot if it is free.
    pub(crate) fn start(&mut self, relay: usize) {
        if self.relays[relay].session.is_some() {
            return;
        }
        if !self.db.is_up {
            return self.start_later(relay);
        }
        match &self.db.slot {
            Some(Slot { reader: Some(_), .. }) => return self.later(200_000, What::Start(relay)),
            None if !self.db.open.is_empty() || !self.db.hidden.is_empty() => {
                // Making a slot waits for transactions that run.
                return self.later(20_000, What::Start(relay));
            }
            None => {
                self.say(relay, || "makes the slot".to_owned());
                self.db.slot = Some(Slot { confirmed: self.db.wal_end, reader: None });
            }
            Some(_) => {}
        }
        let id = self.number();
        let passes_over = std::mem::take(&mut self.relays[relay].must_pass_over);
        let now = self.clocks();
        let seed = self.dice.relays.u64(..);
        let (flushed, snapshot) = (self.db.flushed, self.db.snapshot());
        let Some(slot) = &mut self.db.slot else { return };
        slot.reader = Some(id);
        let confirmed = slot.confirmed;
        let from = if passes_over { flushed } else { confirmed };
        let start = Start {
            confirmed: Lsn(confirmed),
            broker_is_ready: false,
            passed_over: passes_over.then_some(snapshot),
            careful: false,
            seed,
        };
        let next_entry = self.db.log.partition_point(|entry| entry.end <= from);
        self.relays[relay].session = Some(Session {
            id,
            core: Core::new(self.knobs.config.clone(), start, now.instant),
            next_entry,
            messages: VecDeque::new(),
            described: None,
            connection: None,
            connects: 0,
            turn: 0,
            is_reading: false,
            is_draining: false,
            live_from: None,
            read_to: next_entry,
            calm_since: self.now,
            was_nacked: false,
            from_table: BTreeSet::new(),
        });
        self.say(relay, || format!("begins session {id} at {from}"));
        self.later(0, What::Connect(relay, id));
        self.later(1_000_000, What::Keepalive(relay, id));
        self.turn(relay);
    }

    fn start_later(&mut self, relay: usize) {
        self.relays[relay].failures = (self.relays[relay].failures + 1).min(6);
        let most = 200_000 << self.relays[relay].failures;
        let pause = self.dice.relays.u64(100_000..=most.min(10_000_000));
        self.later(pause, What::Start(relay));
    }

    /// Lets the core say what is to be done, and does it.
    pub(crate) fn turn(&mut self, relay: usize) {
        let now = self.clocks();
        for effects in 0.. {
            let Some(session) = &mut self.relays[relay].session else { return };
            let id = session.id;
            let Some(effect) = session.core.next(now) else { break };
            if effects > 1000 {
                return self.checker.fail(Promise::Sane, None, "the core has something to do without end");
            }
            self.carry_out(relay, id, effect);
            if self.has(Trouble::KillRelay) && self.dice.troubles.u32(..4000) == 0 {
                return self.kill(relay);
            }
        }
        let Some(session) = &mut self.relays[relay].session else { return };
        session.turn += 1;
        let (id, turn) = (session.id, session.turn);
        let wake_at = session.core.wake_at(now.instant);
        if wake_at <= now.instant {
            return self.checker.fail(Promise::Sane, None, "the core wants to be woken in the past");
        }
        let wait = micros(wake_at - now.instant).max(1);
        session.live_from = session.core.is_live().then(|| session.live_from.unwrap_or(session.next_entry));
        let (in_memory, unsettled, unwritten) =
            (session.core.in_memory(), session.core.unsettled(), session.core.unwritten());
        self.later(wait, What::Wake(relay, id, turn));
        self.relays[relay].most_unwritten = self.relays[relay].most_unwritten.max(unwritten);
        let config = &self.knobs.config;
        if in_memory > config.limits.max_events + 1 {
            let most = config.limits.max_events;
            self.checker.fail(Promise::Memory, None, format!("{in_memory} events in memory, {most} are allowed"));
        }
        let allowed = config.in_flight + 2 * config.settle_batch + self.relays[relay].most_unwritten;
        if unsettled > allowed {
            self.checker.fail(
                Promise::Duplicates,
                None,
                format!("{unsettled} events unsettled, {allowed} are allowed"),
            );
        }
        self.check_log(relay);
        self.poke(relay);
    }

    fn carry_out(&mut self, relay: usize, id: u64, effect: Effect) {
        match effect {
            Effect::Publish(events) => self.publish(relay, events),
            Effect::Table(request) => {
                self.say(relay, || format!("asks the table: {}", name_of(&request)));
                let number = self.number();
                self.operations
                    .insert(number, Operation { relay, session: id, request: Some(request), executed: None });
                let way = self.way();
                self.later(way, What::Execute(number));
            }
            Effect::Acknowledge(position) => {
                let way = self.way();
                self.check_acknowledged(relay, position.0);
                self.later(way, What::Acknowledge(id, position.0));
            }
            Effect::Report(report) => {
                if let Report::Answered { event, status: Status::Failed, .. } = &report {
                    self.checker.fact(seq_of(&event.id)).given_up = true;
                }
                if let Report::TableTrouble { .. } = &report
                    && let Some(session) = self.session(relay, id)
                {
                    session.calm_since = u64::MAX; // until the next session
                }
                self.say(relay, || match report {
                    Report::Answered { event, status, error, .. } => {
                        format!("{} is {}: {}", event.seq, status.as_str(), error.unwrap_or_default())
                    }
                    report => format!("{report:?}"),
                });
            }
            Effect::End(end) => {
                self.say(relay, || format!("ends: {end:?}"));
                match end {
                    End::Drained | End::DrainTimeout { .. } => {
                        self.close(relay, true);
                        let after = self.dice.relays.u64(..2_000_000);
                        self.later(after, What::Start(relay));
                    }
                    End::StoodStill(_) => {
                        self.close(relay, false);
                        self.start_later(relay);
                    }
                    End::Unreadable(error) => self.checker.fail(Promise::Sane, None, error),
                }
            }
        }
    }

    fn publish(&mut self, relay: usize, events: Vec<Arc<Event>>) {
        let numbers: Vec<i64> = events.iter().map(|event| event.seq).collect();
        self.say(relay, || format!("publishes {numbers:?}"));
        let Some(session) = &self.relays[relay].session else { return };
        let reader = self.db.slot.as_ref().and_then(|slot| slot.reader);
        if session.is_draining {
            self.checker.fail(Promise::OneRelay, None, "a relay that drains publishes more");
        }
        if reader.is_some_and(|reader| reader != session.id) {
            self.checker.fail(Promise::OneRelay, None, "a relay publishes that has lost its slot to another");
        }
        let Some(connection) = session.connection else { return };
        let Some(open) = self.broker.connections.get_mut(&connection) else { return };
        open.unanswered.extend(events.iter().cloned());
        open.on_the_way.extend(events);
        self.schedule_step(connection);
    }

    pub(crate) fn schedule_step(&mut self, connection: u64) {
        let way = self.way();
        let Some(open) = self.broker.connections.get_mut(&connection) else { return };
        if !open.is_stepping && !open.on_the_way.is_empty() {
            open.is_stepping = true;
            self.later(way, What::Step(connection));
        }
    }

    pub(crate) fn step_connection(&mut self, connection: u64) {
        let Some(open) = self.broker.connections.get_mut(&connection) else { return };
        open.is_stepping = false;
        let at_a_time = self.dice.network.usize(1..6);
        for _ in 0..at_a_time {
            match self.broker.step(connection, self.knobs.unroutable_is_retried, self.now) {
                Stepped::Accepted(seq) => {
                    self.tell("broker", || format!("a queue takes {seq}"));
                    self.checker.accepted(seq, &self.knobs, &self.db, &self.broker);
                }
                Stepped::Refused(seq) => {
                    self.tell("broker", || format!("refuses {seq}"));
                    self.checker.disruptions += 1; // it may be a channel that was closed
                    self.may_delete_refused(seq);
                }
                Stepped::Closed => return self.cut(connection, "the broker closes the connection"),
                Stepped::Nothing => break,
            }
        }
        self.schedule_step(connection);
        self.schedule_answers(connection);
    }

    pub(crate) fn schedule_answers(&mut self, connection: u64) {
        let way = self.way();
        let Some((relay, session)) = self.owner(connection) else { return };
        let Some(open) = self.broker.connections.get_mut(&connection) else { return };
        if !open.is_answering && !open.answers.is_empty() {
            open.is_answering = true;
            self.later(way, What::Answers(relay, session, connection));
        }
    }

    fn owner(&self, connection: u64) -> Option<(usize, u64)> {
        self.relays.iter().enumerate().find_map(|(number, relay)| {
            let session = relay.session.as_ref()?;
            (session.connection == Some(connection)).then_some((number, session.id))
        })
    }

    pub(crate) fn answers(&mut self, relay: usize, id: u64, connection: u64) {
        if let Some(open) = self.broker.connections.get_mut(&connection) {
            open.is_answering = false;
        }
        let at_most = self.dice.network.usize(1..12);
        let (now, silent) = (self.clocks(), self.broker.is_silent);
        let answers = self.broker.answer(connection, at_most);
        if answers.is_empty() {
            let owes_since = self.broker.connections.get(&connection).and_then(|open| open.owes_since);
            if silent && owes_since.is_some_and(|since| self.now >= since + CONFIRM_TIMEOUT) {
                return self.cut(connection, "the broker has answered nothing for long");
            }
            if silent && owes_since.is_some() {
                if let Some(open) = self.broker.connections.get_mut(&connection) {
                    open.is_answering = true;
                }
                self.later(500_000, What::Answers(relay, id, connection));
            }
            return;
        }
        self.schedule_answers(connection);
        let Some(session) = self.session(relay, id).filter(|session| session.connection == Some(connection)) else {
            return;
        };
        session.was_nacked |=
            answers.iter().any(|answer| matches!(answer.outcome, outbox_core::Outcome::Unavailable(_)));
        session.connects = 0;
        session.core.on(Input::Sink(Notice::Answers(answers)), now);
        self.turn(relay);
    }

    /// The sink tries to connect.
    pub(crate) fn connect(&mut self, relay: usize, id: u64) {
        let now = self.clocks();
        let is_up = self.broker.is_up;
        let connection = if is_up { Some(self.broker.open()) } else { None };
        let Some(session) = self.session(relay, id) else { return };
        session.connection = connection;
        session.connects += 1;
        let most = (100_000_u64 << session.connects.min(6)).min(5_000_000);
        let notice = if is_up { Notice::Ready } else { Notice::Away("refused".to_owned()) };
        session.core.on(Input::Sink(notice), now);
        self.say(relay, || format!("connects to the broker: {}", if is_up { "open" } else { "refused" }));
        if !is_up {
            let pause = self.dice.network.u64(50_000..=most);
            self.later(pause, What::Connect(relay, id));
        }
        self.turn(relay);
    }

    /// A connection to the broker ends.
    pub(crate) fn cut(&mut self, connection: u64, why: &'static str) {
        let owner = self.owner(connection);
        self.broker.connections.remove(&connection);
        self.checker.disruptions += 1;
        self.tell("network", || format!("connection {connection} ends: {why}"));
        if let Some((relay, session)) = owner {
            let way = self.way();
            self.later(way, What::Lost(relay, session, why));
        }
    }

    pub(crate) fn lost(&mut self, relay: usize, id: u64, why: &'static str) {
        let now = self.clocks();
        let pause = self.dice.network.u64(50_000..200_000);
        let Some(session) = self.session(relay, id) else { return };
        session.connection = None;
        session.core.on(Input::Sink(Notice::Away(why.to_owned())), now);
        self.later(pause, What::Connect(relay, id));
        self.turn(relay);
    }

    pub(crate) fn blocked(&mut self, relay: usize, id: u64, connection: u64, is_blocked: bool) {
        let now = self.clocks();
        let Some(session) = self.session(relay, id).filter(|session| session.connection == Some(connection)) else {
            return;
        };
        let notice = if is_blocked { Notice::Blocked("low on memory".to_owned()) } else { Notice::Ready };
        session.core.on(Input::Sink(notice), now);
        self.turn(relay);
    }

    pub(crate) fn wake(&mut self, relay: usize, id: u64, turn: u64) {
        if self.session(relay, id).is_some_and(|session| session.turn == turn) {
            self.turn(relay);
        }
    }

    /// The stream is read as far as the core reads it.
    pub(crate) fn read(&mut self, relay: usize, id: u64) {
        let now = self.clocks();
        let reader = self.db.slot.as_ref().and_then(|slot| slot.reader);
        let Some(session) = self.session(relay, id) else { return };
        session.is_reading = false;
        if reader != Some(id) {
            self.say(relay, || "finds its stream ended".to_owned());
            self.close(relay, false);
            return self.start_later(relay);
        }
        for _ in 0..MESSAGES_AT_A_TIME {
            let Some(session) = &mut self.relays[relay].session else { return };
            if !session.core.reads_stream(now.instant) {
                break;
            }
            if session.messages.is_empty() {
                let Some(entry) = self.db.log.get(session.next_entry).filter(|entry| entry.end <= self.db.flushed)
                else {
                    break;
                };
                if entry.is_unstreamable {
                    self.say(relay, || "the server cannot send what comes next".to_owned());
                    self.close(relay, false);
                    self.relays[relay].must_pass_over = true;
                    return self.start_later(relay);
                }
                session.send(&entry.clone());
            }
            let Some(message) = session.messages.pop_front() else { continue };
            session.tell(&message, now);
            self.say(relay, || match message {
                Message::Insert(insert) => format!("reads Insert({})", insert.emitted.seq),
                message => format!("reads {message:?}"),
            });
        }
        self.turn(relay);
    }

    /// There may be something to read.
    pub(crate) fn poke(&mut self, relay: usize) {
        let now = self.clocks();
        let Some(session) = &mut self.relays[relay].session else { return };
        let has_more = !session.messages.is_empty()
            || self.db.log.get(session.next_entry).is_some_and(|entry| entry.end <= self.db.flushed);
        if has_more && !session.is_reading && session.core.reads_stream(now.instant) {
            session.is_reading = true;
            let id = session.id;
            let way = self.way();
            self.later(way, What::Read(relay, id));
        }
    }

    pub(crate) fn poke_all(&mut self) {
        for relay in 0..self.relays.len() {
            self.poke(relay);
        }
    }

    pub(crate) fn keepalive(&mut self, relay: usize, id: u64) {
        let flushed = self.db.flushed;
        let next = self.session(relay, id).map(|session| session.next_entry);
        let Some(next) = next else { return };
        let sent_all = self.db.log.get(next).is_none_or(|entry| entry.end > flushed);
        let before = next.checked_sub(1).and_then(|last| self.db.log.get(last)).map_or(0, |entry| entry.end);
        let wal_end = if sent_all { flushed } else { before };
        if let Some(session) = self.session(relay, id) {
            session.messages.push_back(Message::Keepalive(wal_end));
        }
        self.later(1_000_000, What::Keepalive(relay, id));
        self.poke(relay);
    }

    pub(crate) fn drain(&mut self, relay: usize, id: u64) {
        let now = self.clocks();
        let Some(session) = self.session(relay, id) else { return };
        session.is_draining = true;
        session.core.on(Input::Drain, now);
        self.say(relay, || "is told to stop".to_owned());
        self.turn(relay);
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, relay: usize) {
        self.say(relay, || "is killed".to_owned());
        self.close(relay, false);
        self.relays[relay].frozen_until = 0;
        let after = self.dice.troubles.u64(..1_500_000);
        self.later(after, What::Start(relay));
    }

    /// The session is over. What was on its way may still arrive.
    pub(crate) fn close(&mut self, relay: usize, is_clean: bool) {
        let Some(session) = self.relays[relay].session.take() else { return };
        self.checker.disruptions += 1;
        self.relays[relay].failures = 0;
        let notices_after = if is_clean { 0 } else { self.dice.relays.u64(..200_000) };
        self.later(notices_after, What::FreeSlot(session.id));
        if let Some(open) = session.connection.and_then(|number| self.broker.connections.get_mut(&number)) {
            let arrive = if is_clean { 0 } else { self.dice.network.usize(..=open.on_the_way.len()) };
            open.on_the_way.truncate(arrive);
        }
        let own = |operation: &Operation| operation.session == session.id;
        for number in self.operations.iter().filter(|(_, op)| own(op)).map(|(number, _)| *number).collect::<Vec<_>>() {
            // Sent, or not.
            if self.dice.network.bool() {
                self.operations.remove(&number);
            }
        }
    }

    pub(crate) fn free_slot(&mut self, session: u64) {
        if let Some(slot) = self.db.slot.as_mut().filter(|slot| slot.reader == Some(session)) {
            slot.reader = None;
        }
    }

    pub(crate) fn execute(&mut self, number: u64) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let Some(request) = operation.request.take() else { return };
        if !self.db.is_up {
            self.operations.remove(&number);
            return;
        }
        let executed = self.db.execute(request, self.now);
        let wait = micros(executed.wait);
        if let Finished::Settled(_, not_written) = &executed.finished {
            for id in not_written.missing.iter().chain(&not_written.locked) {
                self.checker.fact(seq_of(id)).let_go = true;
            }
        }
        if let Finished::NotSettled(batch, _) = &executed.finished {
            for verdict in &batch.verdicts {
                self.checker.fact(seq_of(&verdict.id)).let_go = true;
            }
        }
        for (seq, status) in executed.written.clone() {
            self.tell("table", || format!("{seq} is {}", status.as_str()));
            self.checker.written(seq, status, &self.knobs, &self.broker);
        }
        if let Some(operation) = self.operations.get_mut(&number) {
            operation.executed = Some(executed);
        }
        let way = self.way();
        self.later(way + wait, What::Finish(number));
        self.poke_all();
    }

    pub(crate) fn finish(&mut self, number: u64) {
        let Some(operation) = self.operations.get(&number) else { return };
        let (relay, id) = (operation.relay, operation.session);
        let thaws_at = self.relays[relay].frozen_until;
        if thaws_at > self.now {
            return self.at(thaws_at, What::Finish(number));
        }
        let now = self.clocks();
        let Some(Operation { executed: Some(executed), .. }) = self.operations.remove(&number) else { return };
        let Some(session) = self.session(relay, id) else { return };
        let events = match &executed.finished {
            Finished::Scanned(_, page) => page.events.as_slice(),
            Finished::Due(due) => due.events.as_slice(),
            _ => &[],
        };
        session.from_table.extend(events.iter().map(|event| event.seq));
        session.core.on(Input::Table(executed.finished), now);
        self.turn(relay);
    }

    pub(crate) fn acknowledged(&mut self, session: u64, position: u64) {
        if let Some(slot) = self.db.slot.as_mut().filter(|slot| slot.reader == Some(session)) {
            slot.confirmed = slot.confirmed.max(position);
        }
    }

    /// What was streamed while events come from the stream is acknowledged only when it is settled.
    fn check_acknowledged(&mut self, relay: usize, position: u64) {
        let Some(session) = &self.relays[relay].session else { return };
        let Some(live_from) = session.live_from.filter(|_| session.core.is_live() && !session.was_nacked) else {
            return;
        };
        let read = self.db.log.get(live_from..session.read_to).unwrap_or_default();
        let mut found = None;
        for emitted in read.iter().filter(|entry| entry.end <= position).flat_map(|entry| &entry.inserts) {
            let is_owed = self.db.rows.get(&emitted.seq).is_some_and(|row| {
                row.status == Status::Pending && row.locked_until <= self.now && row.refused_until <= self.now
            });
            let is_excused = self.checker.facts.get(&emitted.seq).is_some_and(|fact| fact.let_go || fact.replays > 0);
            let is_here = session.core.knows(&id_of(emitted.seq)) && !session.from_table.contains(&emitted.seq);
            if is_owed && !is_excused && is_here {
                found = Some(emitted.seq);
            }
        }
        if let Some(seq) = found {
            let what = format!("position {position} is acknowledged, and the event has no verdict in the table");
            self.checker.fail(Promise::Acknowledged, Some(seq), what);
        }
    }

    /// The slot moves on within a bounded time, whatever the broker does.
    fn check_log(&mut self, relay: usize) {
        let Some(session) = &self.relays[relay].session else { return };
        let bound = micros(self.knobs.config.park_after) + 10_000_000;
        let Some(long_ago) = self.now.checked_sub(bound).filter(|at| session.calm_since < *at) else { return };
        let confirmed = self.db.slot.as_ref().map_or(0, |slot| slot.confirmed);
        let pinned = self.checker.pinned(confirmed, &self.db.log, long_ago);
        if let Some(since) = pinned {
            let what =
                format!("the slot stands at {confirmed}, before a commit of {} s ago", (self.now - since) / 1_000_000);
            self.checker.fail(Promise::LogIsFreed, None, what);
        }
    }
}

impl Session {
    /// The session has no part in what happens until then.
    pub(crate) fn calm(&mut self, until: Micros) {
        self.calm_since = self.calm_since.max(until);
    }

    /// What the server sends of a commit.
    fn send(&mut self, entry: &Entry) {
        self.next_entry += 1;
        let inserts = if entry.is_published { entry.inserts.as_slice() } else { &[] };
        if !inserts.is_empty() || entry.has_message {
            self.messages.push_back(Message::Begin(entry.xid as u32, entry.lsn));
            for (emitted, until) in inserts.iter().zip(&entry.deferred_until) {
                if self.described.replace(entry.publication) != Some(entry.publication) {
                    self.messages.push_back(Message::Described);
                }
                let insert = Inserted { emitted: emitted.clone(), until: *until };
                self.messages.push_back(if emitted.is_oversized { Message::TooLarge } else { Message::Insert(insert) });
            }
            if entry.has_message {
                self.messages.push_back(Message::Replayed);
            }
            self.messages.push_back(Message::Commit(entry.end, self.next_entry));
        }
    }

    fn tell(&mut self, message: &Message, now: outbox_core::Now) {
        let streamed = match message {
            Message::Begin(xid, lsn) => Streamed::Begin { xid: *xid, final_lsn: Lsn(*lsn) },
            Message::Described => Streamed::TableDescribed,
            Message::Insert(insert) => Streamed::Insert(insert),
            Message::TooLarge => Streamed::TooLarge { bytes: 1 << 30 },
            Message::Replayed => Streamed::Replayed,
            Message::Commit(end, entries) => {
                self.read_to = *entries;
                Streamed::Commit { end_lsn: Lsn(*end) }
            }
            Message::Keepalive(wal_end) => Streamed::Keepalive { wal_end: Lsn(*wal_end), reply_requested: false },
        };
        self.core.on(Input::Stream(streamed), now);
    }
}

/// Whether the transaction inserts the event.
pub(crate) fn inserts(changes: &[Change], seq: i64) -> bool {
    changes.iter().any(|change| matches!(change, Change::Insert(emitted, _) if emitted.seq == seq))
}

fn name_of(request: &outbox_core::Request) -> String {
    match request {
        outbox_core::Request::Settle(batch) => {
            let verdicts =
                batch.verdicts.iter().map(|verdict| format!("{} {}", seq_of(&verdict.id), verdict.status.as_str()));
            format!("settle {}", verdicts.collect::<Vec<_>>().join(", "))
        }
        outbox_core::Request::Scan(from, scan) => format!("pending after {} ({} rows)", from.after_seq, scan.max_rows),
        outbox_core::Request::Due(_) => "due".to_owned(),
        outbox_core::Request::Snapshot => "snapshot".to_owned(),
        outbox_core::Request::LookAtPublication => "the publication?".to_owned(),
        outbox_core::Request::EnsurePublication => "mend the publication".to_owned(),
    }
}
