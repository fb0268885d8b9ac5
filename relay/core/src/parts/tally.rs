//! Counts what a session does. No decision depends on it.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::interface::{Counts, Lsn, PassReason, Status, Verdict};

/// The counts, and what is needed to make them.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    counts: Counts,
    read_to: Lsn,
    reason: Option<PassReason>,
    settle_began: Option<Instant>,
}

/// Prints nothing of itself, since it takes no part in decisions.
impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tally")
    }
}

impl Tally {
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The position up to which the WAL has been read.
    pub(crate) fn read(&self) -> Lsn {
        self.read_to
    }

    pub(crate) fn streamed(&mut self) {
        self.counts.streamed += 1;
    }

    /// An event was read from the table. `is_admitted`: it was taken into memory.
    pub(crate) fn scanned(&mut self, is_admitted: bool) {
        self.counts.scanned += u64::from(is_admitted);
    }

    pub(crate) fn published(&mut self, events: usize) {
        self.counts.published += events as u64;
    }

    /// The next pass will be made for this reason.
    pub(crate) fn pass_for(&mut self, reason: PassReason) {
        self.reason = Some(reason);
    }

    pub(crate) fn pass_begins(&mut self) {
        let reason = self.reason.unwrap_or(PassReason::Start);
        let counts = self.counts.passes.iter_mut().zip(PassReason::ALL);
        counts.filter(|(_, (known, _))| *known == reason).for_each(|(count, _)| *count += 1);
    }

    pub(crate) fn read_to(&mut self, position: Lsn) {
        self.read_to = self.read_to.max(position);
    }

    /// The broker has confirmed an event. Both times are in microseconds since the Unix epoch; `None`: the time of the
    /// commit is not known.
    pub(crate) fn confirmed(&mut self, committed_at_us: Option<i64>, now_us: i64) {
        if let Some(committed_at_us) = committed_at_us {
            let took = now_us.saturating_sub(committed_at_us);
            self.counts.commit_to_confirm.note(u64::try_from(took).unwrap_or(0)); // negative if a clock is behind
        }
    }

    pub(crate) fn settle_begins(&mut self, now: Instant) {
        self.settle_began = Some(now);
    }

    pub(crate) fn settle_ends(&mut self, now: Instant) {
        if let Some(began) = self.settle_began.take() {
            let took: Duration = now.duration_since(began);
            self.counts.settle.note(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn settled(&mut self, verdict: &Verdict) {
        *match verdict.status {
            Status::Sent => &mut self.counts.sent,
            Status::Failed => &mut self.counts.failed,
            Status::Pending => &mut self.counts.retried,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_are_counted_apart_and_a_session_begins_with_a_pass_of_its_own() {
        let mut tally = Tally::default();
        tally.pass_begins();
        tally.pass_for(PassReason::Replay);
        tally.pass_begins();
        tally.pass_begins();
        let mut sum = tally.counts;
        sum.add(&tally.counts);
        assert_eq!(sum.passes, [2, 0, 0, 0, 0, 0, 4, 0, 0]);
    }
}
