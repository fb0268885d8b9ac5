//! What operators do with events: they release keys, replay, delete, lock, and set a status by hand.

use outbox_core::Status;

use crate::{
    agenda::What,
    database::{Change, Micros, Row},
    knobs::Trouble,
    world::World,
};

impl World {
    /// Operators release all keys that a failed event holds.
    pub(crate) fn release_all(&mut self) {
        let holds = |row: &Row| row.status == Status::Failed && row.holds_key;
        let holders: Vec<i64> = self.db.rows.values().filter(|row| holds(row)).map(|row| row.emitted.seq).collect();
        holders.into_iter().for_each(|seq| self.release(seq));
    }

    /// An operator releases one such key.
    pub(crate) fn release_one(&mut self) {
        if let Some(seq) = self.pick_row(|row| row.status == Status::Failed && row.holds_key) {
            self.release(seq);
        }
    }

    fn release(&mut self, seq: i64) {
        self.log("operator", || format!("releases the key of {seq}"));
        self.checker.fact(seq).touched = true;
        let now = self.now;
        self.db.update(seq, now, |row| std::mem::take(&mut row.holds_key));
        self.poke_all();
    }

    /// An operator deletes an event, more often a pending one.
    pub(crate) fn delete(&mut self) {
        let now = self.now;
        let is_pending = self.dice.troubles.u8(..3) > 0;
        let may_go = |row: &Row| row.locked_until <= now && (row.status == Status::Pending) == is_pending;
        if let Some(seq) = self.pick_row(may_go) {
            self.delete_row(seq);
        }
    }

    /// An operator may delete an event that the broker has not taken.
    pub(crate) fn may_delete_not_taken(&mut self, seq: i64) {
        let is_free = self.db.rows.get(&seq).is_some_and(|row| row.locked_until <= self.now);
        if self.has(Trouble::Delete) && is_free && self.dice.troubles.u8(..4) == 0 {
            self.delete_row(seq);
        }
    }

    fn delete_row(&mut self, seq: i64) {
        let now = self.now;
        self.log("operator", || format!("deletes {seq}"));
        self.checker.fact(seq).touched = true;
        self.db.update(seq, now, |_| true);
        self.db.rows.remove(&seq);
        self.poke_all();
    }

    /// An operator sets an event's status with a plain UPDATE.
    pub(crate) fn finish_by_hand(&mut self) {
        let now = self.now;
        let Some(seq) = self.pick_row(|row| row.status == Status::Pending && row.locked_until <= now) else { return };
        self.log("operator", || format!("sets {seq} to FAILED"));
        let fact = self.checker.fact(seq);
        (fact.touched, fact.by_hand) = (true, true);
        self.db.update(seq, now, |row| {
            row.status = Status::Failed;
            row.holds_key = false;
            true
        });
        self.poke_all();
    }

    /// An operator begins a replay.
    pub(crate) fn replay(&mut self, is_heard: bool) {
        let now = self.now;
        let Some(seq) = self.pick_row(|row| row.status != Status::Pending && row.locked_until <= now) else { return };
        let xid = self.replay_row(seq, is_heard);
        let lasts = self.dice.troubles.u64(..50_000);
        self.later(lasts, What::Commit(xid));
    }

    /// An operator's transaction replays the event, and has yet to commit.
    pub(crate) fn replay_row(&mut self, seq: i64, is_heard: bool) -> u64 {
        let xid = self.db.begin();
        if let Some(row) = self.db.rows.get_mut(&seq) {
            row.locked_until = Micros::MAX;
        }
        if let Some(transaction) = self.db.open.get_mut(&xid) {
            transaction.changes.push(Change::Replay(seq, is_heard));
        }
        self.log("operator", || format!("{xid} replays {seq}"));
        xid
    }

    /// An operator's transaction locks a row for this long.
    pub(crate) fn lock_one(&mut self, lasts: Micros) {
        let now = self.now;
        if let Some(seq) = self.pick_row(|row| row.status == Status::Pending && row.locked_until <= now) {
            self.log("operator", || format!("locks {seq}"));
            self.db.rows.entry(seq).and_modify(|row| row.locked_until = now + lasts);
        }
    }

    /// Draws one of these rows.
    pub(crate) fn pick_row(&mut self, which: impl Fn(&Row) -> bool) -> Option<i64> {
        let rows: Vec<i64> = self.db.rows.values().filter(|row| which(row)).map(|row| row.emitted.seq).collect();
        self.dice.troubles.choice(rows)
    }
}
