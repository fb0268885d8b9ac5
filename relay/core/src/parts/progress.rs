//! Which LSN may be acknowledged: the end of the contiguous prefix of commits whose events are all settled.

use std::{collections::VecDeque, time::Instant};

use crate::{
    faults::{self, Fault},
    interface::Lsn,
    parts::Origin,
};

/// Names the transaction that brought an event, for [`Progress::settled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

crate::marked!(Ticket { 0 as Ticket });

/// The stream's transactions in commit order, as far as they have unsettled events.
///
/// Acknowledging only lets PostgreSQL trim WAL: pending events stand in the table. Still, no position is reported
/// before everything up to it has happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    flushed: Lsn,
    /// The transaction that the stream is in the middle of.
    reading: Option<Origin>,
    /// Transactions that had unsettled events when they were read, oldest first.
    open: VecDeque<Transaction>,
    /// Ticket of the first entry of `open`.
    first: u64,
}

crate::marked!(Progress { flushed, reading, open, first as Ticket });

#[derive(Clone, Debug)]
struct Transaction {
    origin: Origin,
    unsettled: u32,
    /// Position behind the commit; `None` until the stream has brought it.
    end: Option<Lsn>,
    /// When the first of its events was read.
    since: Instant,
}

crate::marked!(Transaction { origin, unsettled, end, since });

impl Progress {
    /// Starts from the position that the slot has confirmed.
    pub(crate) fn new(flushed: Lsn) -> Self {
        Self { flushed, ..Self::default() }
    }

    /// The ticket of the oldest open transaction.
    #[cfg(feature = "faults")]
    pub(crate) fn first_ticket(&self) -> u64 {
        self.first
    }

    /// The position up to which everything is settled. It never moves back.
    pub(crate) fn flushed(&self) -> Lsn {
        self.flushed
    }

    /// A transaction begins.
    pub(crate) fn begin(&mut self, origin: Origin) {
        debug_assert!(self.reading.is_none(), "pgoutput sends whole transactions, one after the other");
        self.reading = Some(origin);
    }

    /// An event of the current transaction must be settled before its commit is. `None`: the stream is between
    /// transactions.
    pub(crate) fn track(&mut self, now: Instant) -> Option<Ticket> {
        let origin = self.reading?;
        let unsettled = u32::from(!faults::is_on(Fault::AcknowledgeBeforeSettle));
        match self.open.back_mut() {
            Some(current) if current.end.is_none() => current.unsettled += unsettled,
            _ => self.open.push_back(Transaction { origin, unsettled, end: None, since: now }),
        }
        Some(Ticket(self.first + self.open.len() as u64 - 1))
    }

    /// The current transaction ends at `end`.
    pub(crate) fn commit(&mut self, end: Lsn) {
        self.reading = None;
        // A commit without unsettled events shares the entry of the one before it, so idle traffic costs no memory.
        match self.open.back_mut() {
            Some(last) => last.end = Some(end),
            None => self.advance_to(end),
        }
        self.settle_prefix();
    }

    /// One event of the ticket's transaction is settled.
    pub(crate) fn settled(&mut self, ticket: Ticket) {
        // Tickets from before [`stop_waiting`](Self::stop_waiting) name transactions that are no longer followed.
        let index = ticket.0.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(transaction) = index.and_then(|index| self.open.get_mut(index)) {
            debug_assert!(
                transaction.unsettled > 0 || faults::is_on(Fault::AcknowledgeBeforeSettle),
                "settled more often than tracked"
            );
            transaction.unsettled = transaction.unsettled.saturating_sub(1);
        }
        self.settle_prefix();
    }

    /// The server has sent everything up to `wal_end`. Without this, an idle database would pin the cluster's WAL.
    pub(crate) fn keepalive(&mut self, wal_end: Lsn) {
        if self.open.is_empty() && self.reading.is_none() {
            self.advance_to(wal_end);
        }
    }

    /// When the first event of the oldest unsettled commit was read; `None`: all commits are settled.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.open.front().map(|transaction| transaction.since)
    }

    /// No longer waits for the commits whose first event was read at `then` or before. Returns their transactions,
    /// whose events are left to the table.
    pub(crate) fn stop_waiting(&mut self, then: Instant) -> Vec<Origin> {
        let is_old = |transaction: &&Transaction| transaction.since <= then && transaction.end.is_some();
        let count = self.open.iter().take_while(is_old).count();
        self.first += count as u64;
        let old: Vec<Transaction> = self.open.drain(..count).collect();
        if let Some(end) = old.last().and_then(|transaction| transaction.end) {
            self.advance_to(end);
        }
        self.settle_prefix();
        old.into_iter().map(|transaction| transaction.origin).collect()
    }

    fn settle_prefix(&mut self) {
        while let Some(Transaction { unsettled: 0, end: Some(end), .. }) = self.open.front() {
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
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const ORIGIN: Origin = Origin { xid: 1, commit: Lsn(1) };

    #[test]
    fn an_empty_commit_is_acknowledged_at_once() {
        let mut progress = Progress::new(Lsn(10));
        progress.begin(ORIGIN);
        progress.commit(Lsn(20));
        assert_eq!(progress.flushed(), Lsn(20));
    }

    #[test]
    fn a_commit_waits_for_the_unsettled_one_before_it() {
        let mut progress = Progress::new(Lsn(0));
        progress.begin(ORIGIN);
        let first = progress.track(Instant::now()).unwrap();
        progress.commit(Lsn(10));
        progress.begin(ORIGIN);
        let second = progress.track(Instant::now()).unwrap();
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
        progress.begin(ORIGIN);
        progress.keepalive(Lsn(50));
        assert_eq!(progress.flushed(), Lsn(0));
    }

    #[test]
    fn a_commit_that_is_no_longer_waited_for_lets_the_slot_move() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut progress = Progress::new(Lsn(0));
        progress.begin(ORIGIN);
        let ticket = progress.track(now).unwrap();
        progress.commit(Lsn(10));
        progress.begin(ORIGIN);
        let open = progress.track(now).unwrap();
        assert_eq!(progress.stop_waiting(now).len(), 1, "one is still being read");
        assert_eq!(progress.flushed(), Lsn(10));
        progress.commit(Lsn(20));
        progress.begin(ORIGIN);
        let after = progress.track(later).unwrap();
        progress.commit(Lsn(30));
        assert_eq!(progress.oldest(), Some(now));
        assert_eq!(progress.stop_waiting(now).len(), 1, "one is younger");
        progress.settled(ticket);
        progress.settled(open);
        assert_eq!(progress.flushed(), Lsn(20), "old tickets settle nothing new");
        progress.settled(after);
        assert_eq!(progress.flushed(), Lsn(30));
    }

    proptest! {
        /// Compared with a naive model that keeps every commit: the flushed LSN is the end of the longest settled
        /// prefix.
        #[test]
        fn the_flushed_lsn_is_the_end_of_the_settled_prefix(
            sizes in prop::collection::vec(0_usize..4, 1..30),
            shuffle in prop::collection::vec(any::<prop::sample::Index>(), 0..120),
        ) {
            let mut progress = Progress::new(Lsn(0));
            let mut model: Vec<(Lsn, usize)> = Vec::new();
            let mut tickets = Vec::new();
            for (number, &size) in sizes.iter().enumerate() {
                progress.begin(ORIGIN);
                for _ in 0..size {
                    tickets.push((number, progress.track(Instant::now()).unwrap()));
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
