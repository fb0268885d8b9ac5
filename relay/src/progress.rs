//! Which LSN may be acknowledged: the end of the contiguous prefix of commits whose events are all settled. Pure.

use std::collections::VecDeque;

use crate::lsn::Lsn;

/// Names the transaction an event came from, for [`Progress::settled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Follows the stream's transactions in commit order.
///
/// Acknowledging only lets PostgreSQL trim WAL: what is owed to the broker stands in the table. Still, nothing is
/// reported that did not happen.
#[derive(Debug, Default)]
pub struct Progress {
    flushed: Lsn,
    inside_transaction: bool,
    /// Transactions that had unsettled events when they were read, oldest first.
    open: VecDeque<Transaction>,
    /// Ticket of the first entry of `open`.
    first: u64,
}

#[derive(Debug)]
struct Transaction {
    unsettled: u32,
    /// `None` while the transaction is still being read.
    end: Option<Lsn>,
}

impl Progress {
    /// Starts from what the slot has confirmed.
    pub fn new(flushed: Lsn) -> Self {
        Self { flushed, ..Self::default() }
    }

    /// The position that may be acknowledged. Never moves back.
    pub fn flushed(&self) -> Lsn {
        self.flushed
    }

    /// Whether every commit that was read is settled.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && !self.inside_transaction
    }

    /// A transaction begins.
    pub fn begin(&mut self) {
        debug_assert!(!self.inside_transaction, "pgoutput sends whole transactions, one after the other");
        self.inside_transaction = true;
    }

    /// The transaction being read has an event that must be settled first.
    pub fn owe(&mut self) -> Ticket {
        match self.open.back_mut() {
            Some(current) if current.end.is_none() => current.unsettled += 1,
            _ => self.open.push_back(Transaction { unsettled: 1, end: None }),
        }
        Ticket(self.first + self.open.len() as u64 - 1)
    }

    /// The transaction that was being read ends at `end`.
    pub fn commit(&mut self, end: Lsn) {
        self.inside_transaction = false;
        // A commit that owes nothing waits for the one before it: no entry of its own, so idle traffic costs no memory.
        match self.open.back_mut() {
            Some(last) => last.end = Some(end),
            None => self.advance_to(end),
        }
        self.settle_prefix();
    }

    /// One event of the ticket's transaction is settled.
    pub fn settled(&mut self, ticket: Ticket) {
        // Tickets from before `abandon` name transactions that are no longer followed.
        let index = ticket.0.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(transaction) = index.and_then(|index| self.open.get_mut(index)) {
            debug_assert!(transaction.unsettled > 0, "settled more often than owed");
            transaction.unsettled = transaction.unsettled.saturating_sub(1);
        }
        self.settle_prefix();
    }

    /// The server has sent everything up to `wal_end`: without this an idle database would pin the cluster's WAL.
    pub fn keepalive(&mut self, wal_end: Lsn) {
        if self.is_idle() {
            self.advance_to(wal_end);
        }
    }

    /// Leaves everything that is open to the table: from here on, commits are acknowledged as they are read.
    pub fn abandon(&mut self) {
        let read = self.open.iter().filter_map(|transaction| transaction.end).next_back();
        self.first += self.open.len() as u64;
        self.open.clear();
        if let Some(end) = read {
            self.advance_to(end);
        }
    }

    fn settle_prefix(&mut self) {
        while let Some(Transaction { unsettled: 0, end: Some(end) }) = self.open.front() {
            let end = *end;
            self.open.pop_front();
            self.first += 1;
            self.advance_to(end);
        }
    }

    fn advance_to(&mut self, lsn: Lsn) {
        self.flushed = self.flushed.max(lsn);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_commit_is_acknowledged_at_once() {
        let mut progress = Progress::new(Lsn(10));
        progress.begin();
        progress.commit(Lsn(20));
        assert_eq!(progress.flushed(), Lsn(20));
    }

    #[test]
    fn a_commit_waits_for_the_unsettled_one_before_it() {
        let mut progress = Progress::new(Lsn(0));
        progress.begin();
        let first = progress.owe();
        progress.commit(Lsn(10));
        progress.begin();
        let second = progress.owe();
        progress.commit(Lsn(20));
        progress.settled(second);
        progress.keepalive(Lsn(30));
        assert_eq!(progress.flushed(), Lsn(0));
        progress.settled(first);
        assert_eq!(progress.flushed(), Lsn(20));
        progress.keepalive(Lsn(30));
        assert_eq!(progress.flushed(), Lsn(30));
    }

    #[test]
    fn a_keepalive_inside_a_transaction_acknowledges_nothing() {
        let mut progress = Progress::new(Lsn(0));
        progress.begin();
        progress.keepalive(Lsn(50));
        assert_eq!(progress.flushed(), Lsn(0));
    }

    #[test]
    fn what_was_abandoned_no_longer_holds_the_slot() {
        let mut progress = Progress::new(Lsn(0));
        progress.begin();
        let ticket = progress.owe();
        progress.commit(Lsn(10));
        progress.begin();
        let open = progress.owe();
        progress.abandon();
        assert_eq!(progress.flushed(), Lsn(10));
        progress.commit(Lsn(20));
        assert_eq!(progress.flushed(), Lsn(20));
        progress.begin();
        let after = progress.owe();
        progress.commit(Lsn(30));
        progress.settled(ticket);
        progress.settled(open);
        assert_eq!(progress.flushed(), Lsn(20), "old tickets settle nothing new");
        progress.settled(after);
        assert_eq!(progress.flushed(), Lsn(30));
    }

    proptest! {
        /// Against a naive model that keeps every commit: the flushed LSN is the end of the longest settled prefix.
        #[test]
        fn the_flushed_lsn_is_the_end_of_the_settled_prefix(
            sizes in prop::collection::vec(0_usize..4, 1..30),
            shuffle in prop::collection::vec(any::<prop::sample::Index>(), 0..120),
        ) {
            let mut progress = Progress::new(Lsn(0));
            let mut model: Vec<(Lsn, usize)> = Vec::new();
            let mut tickets = Vec::new();
            for (number, &size) in sizes.iter().enumerate() {
                progress.begin();
                for _ in 0..size {
                    tickets.push((number, progress.owe()));
                }
                let end = Lsn((number as u64 + 1) * 10);
                progress.commit(end);
                model.push((end, size));
            }
            for pick in shuffle {
                if tickets.is_empty() {
                    break;
                }
                let (number, ticket) = tickets.swap_remove(pick.index(tickets.len()));
                progress.settled(ticket);
                model[number].1 -= 1;
                let expected = model.iter().take_while(|(_, unsettled)| *unsettled == 0).last();
                prop_assert_eq!(progress.flushed(), expected.map_or(Lsn(0), |(end, _)| *end));
            }
        }
    }
}
