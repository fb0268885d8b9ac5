//! Which transactions a query of the table has seen.

use std::str::FromStr;

/// The set of transactions visible to one query, as `pg_current_snapshot()` prints it: `xmin:xmax:xip,xip`
/// (<https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT-PARTS>).
///
/// It decides, without reading a row, whether a pass has covered a streamed transaction. A comparison of LSNs could
/// not: a commit can be in the WAL, and even streamed, before other sessions can see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    xmin: u64,
    xmax: u64,
    /// In ascending order.
    in_progress: Vec<u64>,
}

crate::marked!(Snapshot { xmin as Xid, xmax as Xid, in_progress as Xid });

impl Snapshot {
    /// A snapshot that sees all transactions below `xmax`, except those `in_progress` that are not below `xmin`.
    pub fn new(xmin: u64, xmax: u64, mut in_progress: Vec<u64>) -> Self {
        in_progress.sort_unstable();
        Self { xmin, xmax, in_progress }
    }

    /// Whether the query sees the effects of the transaction, given that it has committed.
    ///
    /// `xid` is the 32-bit id of a top-level transaction, as the stream's `Begin` carries it. It must lie within 2³¹
    /// transactions of the snapshot, as every transaction does that PostgreSQL can still tell apart.
    pub fn sees(&self, xid: u32) -> bool {
        let xid = self.widen(xid);
        xid < self.xmin || (xid < self.xmax && self.in_progress.binary_search(&xid).is_err())
    }

    /// The oldest transaction that was still running, as its 32-bit id: the snapshot sees all before it.
    pub fn oldest_running(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what a row carries")]
        let xid = self.xmin as u32;
        xid
    }

    /// The id after that of the latest transaction that has ended: the snapshot sees none from it on.
    pub fn next_xid(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what a row carries")]
        let xid = self.xmax as u32;
        xid
    }

    /// Whether `xid`, which is running, began before `change`, a transaction that the query sees.
    pub fn precedes(&self, xid: u32, change: u32) -> bool {
        let (xid, change) = (self.widen(xid), self.widen(change));
        // An id that seems to lie ahead belongs to a frozen row, which is older than any running transaction.
        change < self.xmax && xid < change
    }

    /// The transactions that were running, as 32-bit ids. They include those whose commit is in the WAL but not yet
    /// visible.
    pub fn running(&self) -> impl Iterator<Item = u32> {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what the stream carries")]
        self.in_progress.iter().map(|xid| *xid as u32)
    }

    fn widen(&self, xid: u32) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what the stream carries")]
        let distance = xid.wrapping_sub(self.xmax as u32).cast_signed();
        self.xmax.saturating_add_signed(distance.into())
    }
}

/// The text is not a snapshot.
#[derive(Debug, thiserror::Error)]
#[error("not a snapshot: {0:?}")]
pub struct InvalidSnapshot(String);

impl FromStr for Snapshot {
    type Err = InvalidSnapshot;

    fn from_str(text: &str) -> Result<Self, InvalidSnapshot> {
        let parse = || {
            let mut parts = text.splitn(3, ':');
            let xmin = parts.next()?.parse().ok()?;
            let xmax = parts.next()?.parse().ok()?;
            let in_progress = parts
                .next()?
                .split(',')
                .filter(|xid| !xid.is_empty())
                .map(|xid| xid.parse().ok())
                .collect::<Option<Vec<u64>>>()?;
            Some(Self::new(xmin, xmax, in_progress))
        };
        parse().ok_or_else(|| InvalidSnapshot(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        text.parse().unwrap()
    }

    #[test]
    fn a_snapshot_sees_what_committed_before_it_and_nothing_in_progress() {
        let snapshot = snapshot("10:20:12,17");
        let seen: Vec<u32> = (8..23).filter(|&xid| snapshot.sees(xid)).collect();
        assert_eq!(seen, [8, 9, 10, 11, 13, 14, 15, 16, 18, 19]);
    }

    #[test]
    fn what_runs_has_begun_before_a_change_unless_it_is_more_recent_or_the_change_is_frozen() {
        const CHANGE: u32 = 3_000_000_000;
        let snapshot = snapshot("12884901000:12890000000:");
        let change = snapshot.oldest_running().wrapping_sub(5);
        for (behind, precedes) in [(-100, true), (-1, true), (1, false), (1000, false), (1 << 22, false)] {
            let xid = change.wrapping_add_signed(behind);
            assert_eq!(snapshot.precedes(xid, change), precedes, "{behind}");
        }
        let frozen = change.wrapping_add(CHANGE.wrapping_neg());
        assert!(!snapshot.precedes(frozen.wrapping_sub(10), frozen), "it is 3 billion transactions old");
    }

    #[test]
    fn an_idle_server_prints_no_transaction_in_progress() {
        assert!(snapshot("10:10:").sees(9));
        assert!(!snapshot("10:10:").sees(10));
    }

    #[test]
    fn text_that_is_no_snapshot_is_refused() {
        for text in ["", "1", "1:2", "a:2:", "1:2:x"] {
            assert!(text.parse::<Snapshot>().is_err(), "{text}");
        }
    }

    proptest! {
        /// The 32-bit ids of the stream wrap around; the result must be that of the full ids.
        #[test]
        fn the_answer_is_the_same_across_a_wraparound(
            xmax in (1_u64 << 31)..(1 << 40),
            back in 0_u64..1000,
            running in prop::collection::btree_set(0_u64..1000, 0..10),
            offset in -2000_i64..2000,
        ) {
            let xmin = xmax - back;
            let in_progress: Vec<u64> = running.iter().map(|r| xmax - 1 - r).filter(|x| *x >= xmin).rev().collect();
            let snapshot = Snapshot { xmin, xmax, in_progress: in_progress.clone() };
            let xid = xmax.saturating_add_signed(offset);
            let expected = xid < xmin || (xid < xmax && !in_progress.contains(&xid));
            #[expect(clippy::cast_possible_truncation, reason = "as the stream does")]
            let short = xid as u32;
            prop_assert_eq!(snapshot.sees(short), expected);
        }
    }
}
