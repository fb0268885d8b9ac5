//! What a session counts as it decides, for metrics. Nothing is decided by it.

use std::time::Instant;

use crate::interface::Lsn;

/// Upper bounds of a histogram's buckets, in microseconds; what is above the last one is in a bucket of its own.
pub const BOUNDS_US: [u64; 16] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000, 60_000_000,
];

/// How often something took how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How often it took up to the bound of the same place in [`BOUNDS_US`], and longer than the one before.
    pub buckets: [u64; BOUNDS_US.len()],
    /// How often it took longer than the last bound.
    pub longer: u64,
    /// How long it took in all, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// How often it was measured.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum::<u64>() + self.longer
    }

    pub(crate) fn note(&mut self, us: u64) {
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        *self.buckets.get_mut(bucket).unwrap_or(&mut self.longer) += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, count)| *sum += count);
        self.longer += other.longer;
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}

/// Why the table was read from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassReason {
    /// A session begins with a pass.
    Start,
    /// The broker was away.
    BrokerAway,
    /// Memory was full of events that could not leave.
    MemoryFull,
    /// A row of the stream was too large.
    RowTooLarge,
    /// The publication has changed, or leaves something out.
    Publication,
    /// More keys were known than memory has room for.
    Keys,
    /// Somebody has replayed events, or released a key.
    Replay,
    /// A key has worked off what it had in memory, and has more in the table.
    Refill,
    /// The regular look at the table.
    Check,
}

impl PassReason {
    /// All of them, in the order of [`Counts::passes`], each with its name in metrics.
    pub const ALL: [(Self, &str); 9] = [
        (Self::Start, "start"),
        (Self::BrokerAway, "broker_away"),
        (Self::MemoryFull, "memory_full"),
        (Self::RowTooLarge, "row_too_large"),
        (Self::Publication, "publication"),
        (Self::Keys, "keys"),
        (Self::Replay, "replay"),
        (Self::Refill, "refill"),
        (Self::Check, "check"),
    ];
}

/// What has happened since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of the outbox that the stream has brought.
    pub streamed: u64,
    /// Events that were read from the table into memory.
    pub scanned: u64,
    /// Messages handed to the broker.
    pub published: u64,
    /// Verdicts in the table: `SENT`.
    pub sent: u64,
    /// Verdicts in the table: `FAILED`.
    pub failed: u64,
    /// Verdicts in the table: `PENDING`, to be tried again.
    pub retried: u64,
    /// Passes over the table that have begun, by [`PassReason`].
    pub passes: [u64; PassReason::ALL.len()],
    /// From the commit of an event that was streamed to its confirm. The clocks are those of the two machines.
    pub commit_to_confirm: Histogram,
    /// From the start of a statement that writes verdicts to its end.
    pub settle: Histogram,
}

impl Counts {
    /// Adds what another session has counted.
    pub fn add(&mut self, other: &Self) {
        self.streamed += other.streamed;
        self.scanned += other.scanned;
        self.published += other.published;
        self.sent += other.sent;
        self.failed += other.failed;
        self.retried += other.retried;
        self.passes.iter_mut().zip(other.passes).for_each(|(sum, count)| *sum += count);
        self.commit_to_confirm.add(&other.commit_to_confirm);
        self.settle.add(&other.settle);
    }
}

/// What a session holds, and what it is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What has happened since it began.
    pub counts: Counts,
    /// Whether events come from the stream; otherwise they are left to the table.
    pub is_live: bool,
    /// Whether it finishes what is in flight, and takes nothing more.
    pub is_draining: bool,
    /// Since when the broker refuses everything, once that has lasted for `park_after`: one nack among confirms is no such thing.
    pub unavailable_since: Option<Instant>,
    /// Since when nothing could be published: the broker is away, or has blocked publishing.
    pub away_since: Option<Instant>,
    /// Whether the broker has blocked publishing.
    pub is_blocked: bool,
    /// Events in memory.
    pub in_memory: usize,
    /// Bytes of the events in memory.
    pub memory_bytes: usize,
    /// Messages that the broker has not answered.
    pub in_flight: usize,
    /// Verdicts that cannot be written now: the row or the table is locked, the row is not visible yet, or its change is refused.
    pub unwritten: usize,
    /// Keys whose later events wait in the table.
    pub keys_in_table: usize,
    /// How far the WAL has been read.
    pub read_to: Lsn,
    /// How far the WAL may be acknowledged.
    pub acknowledged: Lsn,
}

/// What has lasted for longer than `park_after`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Whether events come from the stream; otherwise they are left to the table. This has no patience.
    pub is_live: bool,
    /// Since when nothing could be published.
    pub away_since: Option<Instant>,
    /// Since when the broker refuses everything.
    pub unavailable_since: Option<Instant>,
    /// How many destinations it has refused meanwhile.
    pub unavailable_destinations: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_counts_in_the_first_bucket_that_holds_it() {
        let mut histogram = Histogram::default();
        [0, 500, 501, 60_000_000, 60_000_001, u64::MAX].into_iter().for_each(|us| histogram.note(us));
        assert_eq!((histogram.buckets[0], histogram.buckets[1], histogram.buckets[15], histogram.longer), (2, 1, 1, 2));
        assert_eq!((histogram.count(), histogram.sum_us), (6, u64::MAX));
    }
}
