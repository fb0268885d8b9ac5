//! Transactions that left something to the table, and could not be seen when last looked.

use std::collections::BTreeMap;

use crate::{
    faults::{self, Fault},
    interface::{Lsn, Snapshot},
};

/// The streamed transaction that an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its id.
    pub(crate) xid: u32,
    /// Where its commit stands in the WAL, or a position before that.
    pub(crate) commit: Lsn,
}

crate::marked!(Origin { xid as Xid, commit });

/// A set of committed transactions that are not yet visible to other sessions, as far as was last looked.
///
/// A commit may be streamed long before others can see it, as under synchronous replication. If it were acknowledged then, a session
/// that begins before it can be seen would find it neither in the stream nor in the table, and what follows it would overtake it.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotYetVisible {
    /// With where they commit.
    transactions: BTreeMap<u32, Lsn>,
    /// The first of those positions.
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
    /// Returns whether it is news.
    pub(crate) fn insert(&mut self, origin: Origin) -> bool {
        if faults::is_on(Fault::NotYetVisibleForgotten) {
            return false;
        }
        self.first_commit = Some(self.first_commit.map_or(origin.commit, |first| first.min(origin.commit)));
        let before = self.transactions.get(&origin.xid).copied();
        self.transactions.insert(origin.xid, before.map_or(origin.commit, |before| before.min(origin.commit)));
        before.is_none()
    }

    /// Forgets those that have become visible.
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

    /// Nothing behind this position may be acknowledged.
    pub(crate) fn ack_limit(&self) -> Option<Lsn> {
        self.first_commit.filter(|_| !faults::is_on(Fault::UnseenAcknowledged))
    }
}
