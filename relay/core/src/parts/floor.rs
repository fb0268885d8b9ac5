//! Until when the next session must read back as far as this one does.
//!
//! Verdicts of a new session let the next one read from later on, although events of earlier sessions may still wait to
//! be handed over. So the last verdict before the session is kept in the table until they have their verdicts.

#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{
    faults::{self, Fault},
    interface::IdHash,
};

/// How long the floor waits, while the broker takes messages, for events that do not leave: their key may be held for
/// days, and the next session would read all that was published since.
const PATIENCE: Duration = Duration::from_secs(600);

/// The last verdict before the session, and how long it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    /// In microseconds since the Unix epoch.
    last_settled_us: i64,
    /// Whether earlier sessions have left nothing.
    is_over: bool,
    /// Whether the table has it; `None`: it may have that of an earlier session.
    is_kept: Option<bool>,
    /// What was read of the table.
    has_read: HasRead,
    /// No earlier session has seen this transaction or a later one; `None`: no such one is known yet.
    next_xid: Option<u32>,
    /// The events that were in memory by then and have no verdict yet.
    waiting: Option<HashSet<Uuid, IdHash>>,
    /// When the floor is over in any case; `None`: the broker takes nothing, or the table is not read yet.
    until: Option<Instant>,
    /// How long it then waits, once the broker takes messages again.
    patience: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct HasRead {
    /// Whether a pass has come to its end.
    pending: bool,
    /// Whether such a pass has left out nothing that an earlier session may have handed over.
    all: bool,
    /// How many events held their keys when the pass began.
    holders: usize,
    /// Whether all events that are due are in memory, or were.
    due: bool,
}

crate::marked!(Floor { is_over, is_kept, has_read, next_xid as Xid, waiting, until } not { last_settled_us, patience });
crate::marked!(HasRead { pending, all, holders, due });

impl Floor {
    /// `None`: no floor is needed.
    pub(crate) fn new(last_settled_us: Option<i64>) -> Self {
        Self {
            last_settled_us: last_settled_us.unwrap_or_default(),
            is_over: last_settled_us.is_none() || faults::is_on(Fault::FloorForgotten),
            is_kept: None,
            has_read: HasRead::default(),
            next_xid: None,
            waiting: None,
            until: None,
            patience: PATIENCE,
        }
    }

    /// What the table is to keep; `None`: no floor.
    pub(crate) fn wanted(&self) -> Option<i64> {
        (!self.is_over).then_some(self.last_settled_us)
    }

    /// What the table keeps by then, as long as a part of the rest is not kept.
    pub(crate) fn present(&self) -> Option<i64> {
        (self.is_kept == Some(true)).then_some(self.last_settled_us)
    }

    /// Whether the table has something else than it should.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_kept != Some(!self.is_over)
    }

    /// Whether the first verdict would let the next session read from later on.
    pub(crate) fn is_missing(&self) -> bool {
        !self.is_over && self.is_kept != Some(true)
    }

    /// The table keeps this.
    pub(crate) fn kept(&mut self, last_settled_us: Option<i64>) {
        self.is_kept = Some(last_settled_us.is_some());
    }

    /// The server does not let the table keep it, so verdicts go on without.
    pub(crate) fn give_up(&mut self) {
        self.is_over = true;
    }

    /// A pass begins, and finds so many events that hold their keys: it leaves out those behind them. `next_xid`: its
    /// snapshot sees no transaction from this one on.
    pub(crate) fn begins_pass(&mut self, holders: usize, next_xid: u32) {
        self.has_read.holders = holders;
        // The transaction that keeps the floor has a higher id than all that began before it, and is visible. Before,
        // what runs may lie beyond a snapshot's limit, as a commit that was streamed and waits for a standby.
        if self.is_kept == Some(true) {
            self.next_xid.get_or_insert(next_xid);
        }
    }

    /// A pass has reached its end. `spilled`: keys of which it has left events in the table. `oldest_running`: it has
    /// read all rows of earlier transactions, and perhaps none of this one and later ones.
    pub(crate) fn has_read_pending(&mut self, spilled: usize, oldest_running: u32) {
        self.has_read.pending = true;
        // Ids of transactions wrap around.
        let is_visible = self.next_xid.is_some_and(|next| oldest_running.wrapping_sub(next).cast_signed() >= 0);
        let is_all = spilled == 0 && self.has_read.holders == 0 && is_visible;
        if is_all && !self.has_read.all {
            self.has_read.all = true;
            self.waiting = None; // what an earlier pass left out is in memory by now
        }
    }

    /// All events that are due are in memory.
    pub(crate) fn has_read_due(&mut self) {
        self.has_read.due = true;
    }

    /// Takes note of the events in memory once the table is read. Returns whether the floor is over now, because they
    /// have their verdicts, or have waited for long while the broker took messages.
    pub(crate) fn look(
        &mut self,
        in_memory: impl FnOnce() -> HashSet<Uuid, IdHash>,
        is_ready: bool,
        now: Instant,
    ) -> bool {
        if self.is_over || !(self.has_read.pending && self.has_read.due) {
            return false;
        }
        let waiting = self.waiting.get_or_insert_with(in_memory);
        let is_through = waiting.is_empty() && self.has_read.all;
        if is_ready {
            self.is_over = is_through || *self.until.get_or_insert(now + self.patience) <= now;
        } else if let Some(until) = self.until.take() {
            self.patience = until.saturating_duration_since(now);
        }
        self.is_over
    }

    /// The event's verdict is in the table.
    pub(crate) fn settled(&mut self, id: &Uuid) {
        if let Some(waiting) = &mut self.waiting {
            waiting.remove(id);
        }
    }
}
