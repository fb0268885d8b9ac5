//! A relay's process: it starts and takes the slot, is stopped, frozen or killed, and its session ends.

use outbox_core::{Absence, Core, End, Input, Lsn, Start};

use super::Session;
use crate::{
    agenda::What,
    checker::Promise,
    database::{Micros, Slot},
    world::World,
};

/// After this time without a word from the reader, the server ends a stream.
const TAKEOVER_AFTER: Micros = 6_000_000;

impl World {
    /// Connects, and takes or creates the slot if no other relay has it.
    pub(crate) fn start(&mut self, relay: usize) {
        if self.relays[relay].session.is_some() {
            return;
        }
        if !self.db.is_up {
            return self.start_later(relay);
        }
        // Creating a slot waits for running transactions.
        let older: Vec<u64> = self.db.open.keys().chain(self.db.hidden.keys()).copied().collect();
        match &self.db.slot {
            Some(Slot { reader: Some(_), .. }) => return self.later(200_000, What::Start(relay)),
            None => {
                self.log_relay(relay, || "creates the slot".to_owned());
                self.db.slot = Some(Slot {
                    confirmed: self.db.wal_end,
                    reader: None,
                    is_created: older.is_empty(),
                    kept_from: None,
                });
            }
            Some(_) => {}
        }
        let id = self.number();
        let passes_over = std::mem::take(&mut self.relays[relay].must_pass_over);
        let now = self.clocks();
        let seed = self.dice.relays.u64(..);
        let (flushed, snapshot) = (self.db.flushed, self.db.snapshot());
        let is_unpublished =
            self.knobs.config.repairs_publication && !self.db.is_published && self.db.repairs_refused_until > self.now;
        let row_by_row = !self.dice.is_searched && self.dice.relays.u8(..4) == 0;
        let (readable_since, last_settled_us) =
            (self.readable_since(), self.db.last_settled().map(|settled| settled as i64));
        let Some(slot) = &mut self.db.slot else { return };
        slot.reader = Some(id);
        let (confirmed, is_created) = (slot.confirmed, slot.is_created);
        let from = if passes_over { flushed } else { confirmed };
        let start = Start {
            confirmed: Lsn(confirmed),
            broker_away_since: Some(now.instant),
            abilities: self.knobs.abilities,
            last_settled_us,
            floor_us: self.db.floor,
            in_doubt: self.db.events_in_doubt(),
            passed_over: passes_over.then_some(snapshot),
            without_stream: !is_created,
            is_unpublished,
            row_by_row,
            seed,
        };
        let next_entry = if is_created { self.db.wal.partition_point(|entry| entry.end <= from) } else { usize::MAX };
        let read_to = next_entry;
        // A session whose stream brings nothing gets keepalives all the same.
        let next_entry = if is_unpublished { usize::MAX } else { next_entry };
        let core = Core::new(self.knobs.config.clone(), start, now.instant);
        // Commits that were confirmed before were visible. The exception is a session whose stream brought nothing and
        // that passed over them: then the next first look at the publication waits for them.
        let read_from = self.db.wal.partition_point(|entry| entry.end <= confirmed).min(read_to);
        let absence = Absence::Away(now.instant);
        let session = Session {
            read_from,
            read_to,
            is_unpublished,
            readable_since,
            ..Session::new(id, core, next_entry, self.now, absence)
        };
        self.relays[relay].session = Some(session);
        self.log_relay(relay, || format!("begins session {id} at {from}"));
        self.later(0, What::Connect(relay, id));
        if is_created {
            self.later(1_000_000, What::Keepalive(relay, id));
        } else {
            self.later(20_000, What::CreateSlot(relay, id, older));
        }
        self.turn(relay);
    }

    /// Creates the slot once the transactions `older` have ended. The stream starts behind all commits so far.
    pub(crate) fn create_slot(&mut self, relay: usize, id: u64, older: Vec<u64>) {
        let now = self.clocks();
        if self.session(relay, id).is_none() {
            return;
        }
        if self.db.slot.as_ref().and_then(|slot| slot.reader) != Some(id) {
            self.log_relay(relay, || "finds the slot gone that it creates".to_owned());
            self.close(relay, false);
            return self.start_later(relay);
        }
        if older.iter().any(|xid| self.db.open.contains_key(xid)) || !self.db.hidden.is_empty() {
            return self.later(20_000, What::CreateSlot(relay, id, older));
        }
        let end = self.db.wal_end;
        self.db.slot = Some(Slot { confirmed: end, reader: Some(id), is_created: true, kept_from: None });
        let next_entry = self.db.wal.partition_point(|entry| entry.end <= end);
        self.log_relay(relay, || format!("has created the slot, and streams from {end}"));
        let Some(session) = self.session(relay, id) else { return };
        (session.read_from, session.read_to) = (next_entry, next_entry);
        session.next_entry = if session.is_unpublished { usize::MAX } else { next_entry };
        session.core.on(Input::StreamStarted, now);
        self.later(1_000_000, What::Keepalive(relay, id));
        self.turn(relay);
    }

    /// The process starts again after a pause, which grows with each failure.
    pub(super) fn start_later(&mut self, relay: usize) {
        self.relays[relay].failures = (self.relays[relay].failures + 1).min(6);
        let most = 200_000 << self.relays[relay].failures;
        let pause = self.dice.relays.u64(100_000..=most.min(10_000_000));
        self.later(pause, What::Start(relay));
    }

    /// SIGTERM: the relay finishes what is in flight.
    pub(crate) fn drain(&mut self, relay: usize, id: u64) {
        let now = self.clocks();
        let Some(session) = self.session(relay, id) else { return };
        session.is_draining = true;
        session.core.on(Input::Drain, now);
        self.log_relay(relay, || "is asked to stop".to_owned());
        self.turn(relay);
    }

    /// SIGKILL: the process is gone, and starts again later.
    pub(crate) fn kill(&mut self, relay: usize) {
        self.log_relay(relay, || "is killed".to_owned());
        self.close(relay, false);
        self.relays[relay].frozen_until = 0;
        let after = self.dice.troubles.u64(..1_500_000);
        self.later(after, What::Start(relay));
    }

    /// The process is frozen for this long. Its connections stay open until the server ends a stream that is not read.
    pub(crate) fn freeze(&mut self, relay: usize, lasts: Micros) {
        if self.relays[relay].frozen_until > self.now {
            return;
        }
        let until = self.now + lasts;
        self.log_relay(relay, || format!("is frozen for {lasts} µs"));
        self.relays[relay].frozen_until = until;
        if let Some(session) = &mut self.relays[relay].session {
            // The relay has no part in what happens until then.
            session.calm_since = session.calm_since.max(until);
            let session = session.id;
            if lasts > TAKEOVER_AFTER {
                self.checker.disruptions += 1;
                self.later(TAKEOVER_AFTER, What::FreeSlot(session));
            }
        }
    }

    /// The core has ended its session.
    pub(super) fn ended(&mut self, relay: usize, end: End) {
        self.log_relay(relay, || format!("ends: {end:?}"));
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
            End::RepairRefused(_) | End::PublishedAgain => {
                self.relays[relay].must_pass_over = end == End::PublishedAgain;
                self.close(relay, false);
                self.start_later(relay);
            }
            End::SlotOverLimit { .. } => {
                self.check_drop(relay);
                let own = self.relays[relay].session.as_ref().map(|session| session.id);
                self.close(relay, true);
                self.db.slot.take_if(|slot| slot.reader.is_some() && slot.reader == own);
                self.later(0, What::Start(relay));
            }
            End::Unreadable(error) => self.checker.fail(Promise::Sane, None, error),
        }
    }

    /// Ends the session. Messages in the socket may still arrive.
    pub(crate) fn close(&mut self, relay: usize, is_clean: bool) {
        let Some(session) = self.relays[relay].session.take() else { return };
        self.checker.disruptions += 1;
        self.relays[relay].failures = 0;
        let notices_after = if is_clean { 0 } else { self.dice.relays.u64(..200_000) };
        self.later(notices_after, What::FreeSlot(session.id));
        if let Some(open) = session.connection.and_then(|number| self.broker.connections.get_mut(&number)) {
            let arrive = if is_clean { 0 } else { self.dice.some(0..=open.on_the_way.len()) };
            open.on_the_way.truncate(arrive);
        }
        self.drop_operations(session.id);
    }

    /// The server notices that the session no longer reads the slot.
    pub(crate) fn free_slot(&mut self, session: u64) {
        if let Some(slot) = self.db.slot.as_mut().filter(|slot| slot.reader == Some(session)) {
            slot.reader = None;
            self.db.slot.take_if(|slot| !slot.is_created);
        }
    }
}
