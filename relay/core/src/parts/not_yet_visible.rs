//! Transactions that left events to the table, and whose commits other sessions cannot see yet.

use std::collections::BTreeMap;

use crate::{
    faults::{self, Fault},
    interface::{Lsn, Snapshot},
};

/// The streamed transaction that an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The transaction's id.
    pub(crate) xid: u32,
    /// Position of its commit in the WAL, or an earlier one.
    pub(crate) commit: Lsn,
}

crate::marked!(Origin { xid as Xid, commit });

/// Committed transactions that were not yet visible at the last look.
///
/// A commit can be streamed long before others can see it, as under synchronous replication. Were it acknowledged then,
/// a session that begins before it is visible would find its events neither in the stream nor in the table, and later
/// events would overtake them.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotYetVisible {
    /// The transactions by id, with the positions of their commits.
    transactions: BTreeMap<u32, Lsn>,
    /// The first of those positions; `None`: the set is empty.
    first_commit: Option<Lsn>,
}

#[cfg(feature = "faults")]
impl crate::Marked for NotYetVisible {
    fn mark(&self, marks: &mut crate::Marks) {
        let Self { transactions, first_commit } = self;
        for (xid, commit) in transactions {
            marks.counted(crate::Kind::Xid, xid);
            commit.mark(marks);
        }
        first_commit.mark(marks);
    }
}

impl NotYetVisible {
    /// Adds a transaction. Returns whether it was not in the set.
    pub(crate) fn insert(&mut self, origin: Origin) -> bool {
        if faults::is_on(Fault::NotYetVisibleForgotten) {
            return false;
        }
        self.first_commit = Some(self.first_commit.map_or(origin.commit, |first| first.min(origin.commit)));
        let before = self.transactions.get(&origin.xid).copied();
        self.transactions.insert(origin.xid, before.map_or(origin.commit, |before| before.min(origin.commit)));
        before.is_none()
    }

    /// Removes the transactions that the snapshot sees.
    pub(crate) fn seen(&mut self, snapshot: &Snapshot) {
        if !self.transactions.is_empty() {
            self.transactions.retain(|&xid, _| !snapshot.sees(xid));
            self.first_commit = self.transactions.values().copied().min();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.transactions.len()
    }

    pub(crate) fn oldest(&self) -> Option<u32> {
        self.transactions.keys().next().copied()
    }

    /// The position up to which the WAL may be acknowledged at most; `None`: no limit.
    pub(crate) fn ack_limit(&self) -> Option<Lsn> {
        self.first_commit.filter(|_| !faults::is_on(Fault::UnseenAcknowledged))
    }
}
