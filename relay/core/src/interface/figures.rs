//! What a session counts, for metrics and the log. No decision depends on it.

use std::time::Instant;

use crate::interface::Lsn;

/// Upper bounds of a histogram's buckets, in microseconds. Longer durations are counted separately.
pub const BOUNDS_US: [u64; 16] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000, 60_000_000,
];

/// A distribution of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Durations up to the bound at the same index of [`BOUNDS_US`] and above the bound before it.
    pub buckets: [u64; BOUNDS_US.len()],
    /// Durations above the last bound.
    pub longer: u64,
    /// Sum of all durations, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// Number of durations.
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

/// Why a pass was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassReason {
    /// Every session begins with a pass.
    Start,
    /// The broker was away.
    BrokerAway,
    /// Memory was full of events that could not leave.
    MemoryFull,
    /// A row of the stream was too large for memory.
    RowTooLarge,
    /// The publication has changed, or leaves columns out.
    Publication,
    /// More keys were known than memory has room for.
    Keys,
    /// Someone has replayed events, or released a key.
    Replay,
    /// A key has more events in the table, and room in memory for them again.
    Refill,
    /// The regular check of the table.
    Check,
}

impl PassReason {
    /// All reasons, in the order of [`Counts::passes`], each with its name in metrics.
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
    /// Verdicts written: `SENT`.
    pub sent: u64,
    /// Verdicts written: `FAILED`.
    pub failed: u64,
    /// Verdicts written: `PENDING`, to be tried again.
    pub retried: u64,
    /// Passes that have begun, by [`PassReason`].
    pub passes: [u64; PassReason::ALL.len()],
    /// Time from the commit of a streamed event to its confirm. It spans the clocks of two machines.
    pub commit_to_confirm: Histogram,
    /// Time that a statement takes to write verdicts.
    pub settle: Histogram,
}

impl Counts {
    /// Adds the counts of another session.
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

/// The state of a session in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What has happened since the session began.
    pub counts: Counts,
    /// Whether events come from the stream; otherwise they are left to the table.
    pub is_live: bool,
    /// Whether the session drains: it finishes what is in flight, and takes nothing more.
    pub is_draining: bool,
    /// Since when every destination has been unavailable; `None` until that has lasted for `park_after`, since a nack
    /// among confirms is no outage.
    pub unavailable_since: Option<Instant>,
    /// Since when nothing could be published, because the broker is away or blocks publishing; `None`: it takes
    /// messages.
    pub away_since: Option<Instant>,
    /// Whether the broker has blocked publishing.
    pub is_blocked: bool,
    /// Events in memory.
    pub in_memory: usize,
    /// Bytes of the events in memory.
    pub memory_bytes: usize,
    /// Messages that the broker has not answered.
    pub in_flight: usize,
    /// Verdicts that cannot be written now: the row or the table is locked, the row is not yet visible, or the server
    /// refuses the change.
    pub unwritten: usize,
    /// Keys whose later events wait in the table.
    pub keys_in_table: usize,
    /// How far the WAL has been read.
    pub read_to: Lsn,
    /// How far the WAL may be acknowledged.
    pub acknowledged: Lsn,
}

/// Conditions that have lasted for `park_after`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Whether events come from the stream, reported without delay; otherwise they are left to the table.
    pub is_live: bool,
    /// Since when nothing could be published; `None`: the broker takes messages, or has been away for less.
    pub away_since: Option<Instant>,
    /// Since when every destination has been unavailable; `None`: some destination takes messages, or the outage is
    /// younger.
    pub unavailable_since: Option<Instant>,
    /// How many destinations have been found unavailable meanwhile.
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
