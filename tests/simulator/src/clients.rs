//! Applications that emit, each transaction at its own pace, and the end of every transaction: theirs, and those of
//! replays.

use crate::{
    agenda::What,
    database::{Change, Emitted, Micros, Row, Transaction},
    knobs::Trouble,
    world::{World, micros},
};

impl World {
    /// A client begins a transaction, and the next is scheduled.
    pub(crate) fn emit(&mut self) {
        if self.emitted >= self.knobs.transactions {
            return;
        }
        let gap = 2 * micros(self.knobs.span) / self.knobs.transactions as u64;
        let next = if self.dice.clients.u8(..3) == 0 { 0 } else { self.dice.clients.u64(..=gap) };
        self.later(next, What::Emit);
        if !self.db.is_up {
            return;
        }
        self.emitted += 1;
        let xid = self.db.begin();
        let events = if self.dice.clients.u8(..12) == 0 { 20 } else { self.dice.clients.usize(1..4) };
        for _ in 0..events {
            self.emit_one(xid, true);
        }
        let dice = &mut self.dice.clients;
        let lasts = if dice.u8(..6) == 0 { dice.u64(..1_000_000) } else { dice.u64(..20_000) };
        self.later(lasts, What::Commit(xid));
    }

    /// Someone emits one more event, with nothing wrong about it, and without a key: in a backlog of one key it would
    /// come last.
    pub(crate) fn emit_another(&mut self) {
        if self.db.is_up {
            let xid = self.db.begin();
            self.emit_one(xid, false);
            self.later(1000, What::Commit(xid));
        }
    }

    fn emit_one(&mut self, xid: u64, may_have_a_key: bool) {
        let (poison, deferred, oversized) =
            (self.has(Trouble::Poison), self.has(Trouble::Deferred), self.has(Trouble::Oversized));
        let (ends, too_large) = (self.has(Trouble::EndsConnection), self.has(Trouble::TooLarge));
        let (keys, now) = (self.knobs.keys, self.now);
        let one_ender_in = (self.knobs.transactions / 2).max(60); // each delays its key for seconds
        let dice = &mut self.dice.clients;
        let key = (dice.u8(..4) > 0).then(|| dice.u64(..keys)).filter(|_| may_have_a_key);
        let until = (dice.u8(..8) == 0 && deferred).then(|| now + dice.u64(..3000) * 1000);
        let emitted = Emitted {
            seq: 0,
            key,
            topic: dice.usize(..3),
            is_poison: dice.u8(..12) == 0 && poison,
            is_ender: ends && dice.usize(..one_ender_in) == 0,
            is_oversized: dice.u8(..20) == 0 && oversized,
            is_too_large: too_large && dice.u8(..12) == 0,
            is_deferred: until.is_some(),
            is_published: self.db.is_published,
        };
        self.insert(xid, emitted, until);
    }

    /// An open transaction inserts an event, which gets the next number.
    pub(crate) fn insert(&mut self, xid: u64, emitted: Emitted, until: Option<Micros>) {
        let emitted = Emitted { seq: self.db.next_seq(), ..emitted };
        let (seq, key, broker) = (emitted.seq, emitted.key, &self.broker);
        let is_before =
            |row: &&Row| row.emitted.key == key && !row.emitted.is_deferred && !broker.has_accepted(row.emitted.seq);
        let before = match key {
            Some(_) => self.db.rows.values().filter(is_before).map(|row| row.emitted.seq).collect(),
            None => Vec::new(),
        };
        self.log("client", || format!("{xid} emits {seq}, key {key:?}, after {before:?}, deferred until {until:?}"));
        let fact = self.checker.fact(seq);
        (fact.key, fact.before, fact.is_deferred) = (key, before, until.is_some());
        fact.is_too_large = emitted.is_too_large;
        if let Some(transaction) = self.db.open.get_mut(&xid) {
            transaction.changes.push(Change::Insert(emitted, until));
        }
    }

    /// The transaction commits, or rolls back.
    pub(crate) fn end(&mut self, xid: u64) {
        let Some(transaction) = self.db.open.get(&xid).cloned() else { return };
        let (late, unsynced, unstreamable) =
            (self.has(Trouble::LateVisible), self.has(Trouble::AsyncCommit), self.has(Trouble::Unstreamable));
        let dice = &mut self.dice.clients;
        let rolls_back = dice.u8(..8) == 0;
        let is_async = dice.u8(..3) == 0 && unsynced;
        let is_unstreamable = dice.u8(..40) == 0 && unstreamable;
        let most: Micros = match dice.u8(..12) {
            0 if late => 20_000_000,
            1..4 if late => 4_000_000,
            _ => 2000,
        };
        let hidden = dice.u64(..most);
        if rolls_back {
            self.log("client", || format!("{xid} rolls back"));
            self.db.open.remove(&xid);
            for change in transaction.changes {
                if let Change::Replay(seq, _) = change
                    && let Some(row) = self.db.rows.get_mut(&seq)
                {
                    row.locked_until = 0;
                }
            }
            return;
        }
        self.commit(xid, is_async, is_unstreamable, hidden);
    }

    /// The transaction commits, and is visible after `hidden`.
    pub(crate) fn commit(&mut self, xid: u64, is_async: bool, is_unstreamable: bool, hidden: Micros) {
        let Some(transaction) = self.db.open.get(&xid).cloned() else { return };
        self.db.commit(xid, is_async, is_unstreamable, self.now);
        for (seq, fact) in &mut self.checker.facts {
            if transaction.inserts(*seq) {
                fact.is_committed = true;
                fact.commit_end = self.db.wal_end;
            }
        }
        for change in &transaction.changes {
            if let Change::Replay(seq, _) = change {
                self.checker.fact(*seq).touched = true;
            }
        }
        self.log("client", || format!("{xid} commits{}", if is_async { ", not on disk yet" } else { "" }));
        self.later(if is_async { 0 } else { hidden }, What::Show(xid));
        if is_async {
            self.later(200_000, What::Flush);
        }
        self.poke_all();
    }

    /// The transaction becomes visible.
    pub(crate) fn show(&mut self, xid: u64) {
        let Some(transaction) = self.db.show(xid) else { return };
        self.log("database", || format!("{xid} is visible"));
        let was_hidden = self.db.wal.iter().any(|entry| entry.xid == xid && entry.at + 100_000 < self.now);
        for session in self.relays.iter_mut().filter(|_| was_hidden).filter_map(|relay| relay.session.as_mut()) {
            session.calm_since = session.calm_since.max(self.now);
        }
        self.replayed(&transaction);
    }

    /// The events that the transaction has replayed begin anew.
    pub(crate) fn replayed(&mut self, transaction: &Transaction) {
        for change in &transaction.changes {
            if let Change::Replay(seq, _) = change {
                let accepted = self.broker.seen.get(seq).map_or(0, |seen| seen.accepted);
                self.broker.forget_failures(*seq);
                let fact = self.checker.fact(*seq);
                fact.earlier_deliveries = accepted;
                fact.replays += 1;
                fact.given_up = false;
                self.log("operator", || format!("{seq} is PENDING again"));
            }
        }
    }
}
