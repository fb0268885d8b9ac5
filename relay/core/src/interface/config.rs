//! What an operator chooses, and what a session starts with.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use crate::interface::{Event, Lsn, Snapshot, Status};

/// The rules and bounds by which events leave.
#[derive(Clone, Debug)]
pub struct Config {
    /// Events handed to the broker and not answered, at most.
    pub in_flight: usize,
    /// Events that leave in a second, at most; `None`: as fast as the broker takes them.
    pub max_rate: Option<NonZeroU32>,
    /// Bounds on what is held in memory.
    pub limits: Limits,
    /// Order, retries, and what follows a failure.
    pub policy: Policy,
    /// Verdicts in one statement at most.
    pub settle_batch: usize,
    /// How long a verdict waits for others to be written with it.
    pub settle_interval: Duration,
    /// How long nothing may leave before the stream is acknowledged unread.
    pub park_after: Duration,
    /// After this time without an answer a destination counts as silent, if other events wait.
    /// Each silence doubles the time for a while, up to fourfold.
    pub silent_after: Duration,
    /// Most bytes of the WAL that the slot may keep; `None`: any number.
    pub max_slot_wal: Option<u64>,
    /// How often the publication and the table are looked at in any case.
    pub check_interval: Duration,
    /// How long a drain may take.
    pub drain_timeout: Duration,
    /// How often the server is told a position at least.
    pub status_interval: Duration,
    /// A pause of the whole process after which another relay may soon take over.
    pub stands_still_after: Duration,
    /// Whether a publication that is missing, or has lost its table, is repaired.
    pub repairs_publication: bool,
    /// Whether a report is made of each event that was delivered, too.
    pub reports_delivered: bool,
}

/// What a session finds when it starts.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// What the slot has confirmed.
    pub confirmed: Lsn,
    /// Since when the broker has been away; `None`: it takes messages.
    pub broker_away_since: Option<Instant>,
    /// A part of the WAL was left out of the stream, since the server cannot send it; taken after that.
    pub passed_over: Option<Snapshot>,
    /// There is no stream yet: the table is read again and again until [`Input::StreamStarted`](crate::Input::StreamStarted).
    pub without_stream: bool,
    /// The publication is of no use, and its repair was refused: the stream brings nothing, and the table is read again and again until
    /// the publication is repaired.
    pub is_unpublished: bool,
    /// The session before met a row that is larger than any event: this one tries each row before it reads it.
    pub row_by_row: bool,
    /// Seeds hashes of keys, whose names emitters choose, and the jitter of delays.
    pub seed: u64,
}

/// Bounds on what is held in memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events.
    pub max_events: usize,
    /// Bytes of events, bodies included.
    pub max_bytes: usize,
}

impl Limits {
    /// What one ordering key may hold in memory behind the event that is leaving: a quarter of all, so that one hot key
    /// leaves room for the others.
    pub(crate) fn key_share(&self) -> Self {
        Self { max_events: (self.max_events / 4).max(1), max_bytes: self.max_bytes / 4 }
    }
}

/// How events with the same key (`aggregate_type`, `aggregate_id`) leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// The next leaves when the one before has its verdict: no nack can reorder them.
    Strict,
    /// They may be in flight together; a nack, or no answer, between them can reorder. For one very hot key.
    Pipelined,
    /// Keys mean nothing.
    None,
}

/// By which rules events leave.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Order within a key.
    pub ordering: Ordering,
    /// When a refused event is tried again.
    pub backoff: Backoff,
    /// After so many attempts an event is `FAILED`.
    pub max_attempts: u32,
    /// An event is `FAILED` after its attempts are used up, and not before its first one lies so long back.
    pub retry_for: Duration,
    /// Whether an event that has `FAILED` holds its key.
    pub hold_failed: bool,
}

impl Policy {
    /// Whether an event with this verdict holds its key.
    pub(crate) fn holds(&self, status: Status) -> bool {
        status == Status::Pending || status == Status::Failed && self.hold_failed
    }

    /// What becomes of an event after a refusal that counts, its `attempts`th.
    pub(crate) fn after_attempt(
        &self,
        error: String,
        attempts: u32,
        event: &Event,
        now: Now,
    ) -> (Status, Option<String>) {
        let tried_us = event.first_attempted_at_us.map_or(0, |first| now.unix_us.saturating_sub(first).max(0));
        let tried_for = Duration::from_micros(tried_us.unsigned_abs());
        let goes_on = attempts < self.max_attempts || tried_for < self.retry_for;
        (if goes_on { Status::Pending } else { Status::Failed }, Some(error))
    }
}

/// Exponential back-off with jitter.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Delay after the first attempt; doubles with each further one.
    pub base: Duration,
    /// Longest delay.
    pub max: Duration,
}

impl Backoff {
    /// Delay after attempt number `attempt` (1 is the first): between half and all of the exponential step, so that
    /// events that failed together do not come back together.
    pub fn delay(&self, attempt: u32, jitter: &mut fastrand::Rng) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1).min(31));
        let step = self.base.saturating_mul(factor).min(self.max);
        step.mul_f64(0.5 + jitter.f64() / 2.0)
    }

    /// Delay after an attempt that did not count, since the broker has refused everything for so long: as long again, so that
    /// it grows as fast.
    pub(crate) fn outage_delay(&self, lasted: Duration) -> Duration {
        lasted.max(self.base).min(self.max)
    }
}

/// The time.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Of this process.
    pub instant: Instant,
    /// Of the world: microseconds since the Unix epoch.
    pub unix_us: i64,
}

crate::marked!(Now { instant, unix_us });

impl Now {
    /// The time that has passed, by the clock that has gone on further: the process's own stands still while its machine sleeps.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        let by_the_worlds = u64::try_from(self.unix_us.saturating_sub(earlier.unix_us)).unwrap_or(0);
        self.instant.duration_since(earlier.instant).max(Duration::from_micros(by_the_worlds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_its_limit_and_is_jittered_down_to_half() {
        let backoff = Backoff { base: Duration::from_millis(200), max: Duration::from_secs(60) };
        let mut jitter = fastrand::Rng::with_seed(0);
        for (attempt, step) in [(1, 200), (2, 400), (5, 3200), (9, 51_200), (10, 60_000), (u32::MAX, 60_000)] {
            let step = Duration::from_millis(step);
            for _ in 0..100 {
                let delay = backoff.delay(attempt, &mut jitter);
                assert!(step / 2 <= delay && delay <= step, "attempt {attempt}: {delay:?}");
            }
        }
    }
}
