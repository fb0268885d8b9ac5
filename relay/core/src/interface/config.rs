//! What an operator chooses, what a session starts with, and the time.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use crate::interface::{Abilities, Event, InDoubt, Lsn, Snapshot, Status};

/// The operator's rules and limits for a session.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most events that are handed to the broker and unanswered.
    pub in_flight: usize,
    /// Most events published in a second; `None`: as many as the broker takes.
    pub max_rate: Option<NonZeroU32>,
    /// Limits on memory.
    pub limits: Limits,
    /// Order, retries, and what follows a failure.
    pub policy: Policy,
    /// Most verdicts in one statement.
    pub settle_batch: usize,
    /// How long a verdict waits for others to be written with it.
    pub settle_interval: Duration,
    /// After this time in which nothing can leave, the session parks: the stream is acknowledged unread, and the table
    /// is read instead.
    pub park_after: Duration,
    /// A destination counts as silent after this time without an answer, if other events wait. Each silence that is
    /// found doubles the time for a while, up to fourfold.
    pub silent_after: Duration,
    /// The sink gives up a connection that has answered nothing for this long.
    pub confirm_timeout: Duration,
    /// Most bytes of WAL that the slot may keep; `None`: no limit of the relay's own.
    pub max_slot_wal: Option<u64>,
    /// How often the publication, the sequence and the table are checked even if nothing calls for it.
    pub check_interval: Duration,
    /// Longest time that a drain may take.
    pub drain_timeout: Duration,
    /// Longest time between two status updates to the server.
    pub status_interval: Duration,
    /// After a pause of the whole process of this length, another relay may soon take over: the session ends.
    pub stands_still_after: Duration,
    /// Whether the relay repairs a publication that is missing or has lost the table.
    pub repairs_publication: bool,
    /// Whether delivered events are reported, too.
    pub reports_delivered: bool,
}

/// What a session finds when it starts.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The position that the slot has confirmed.
    pub confirmed: Lsn,
    /// Since when the broker has been away; `None`: it takes messages.
    pub broker_away_since: Option<Instant>,
    /// What the sink can do.
    pub abilities: Abilities,
    /// The newest `processed_at` of a `SENT` event, in microseconds since the Unix epoch; `None`: there is no such
    /// event. Only a sink that reads back needs it.
    pub last_settled_us: Option<i64>,
    /// The floor that an earlier session has kept ([`Doubts`](crate::Doubts)); `None`: there is none.
    pub floor_us: Option<i64>,
    /// What earlier sessions have kept in the table ([`Request::Keep`](crate::Request::Keep)).
    pub in_doubt: Vec<InDoubt>,
    /// The stream passes over a part of the WAL that the server cannot send; this snapshot was taken afterwards.
    /// `None`: the stream goes on where the slot was.
    pub passed_over: Option<Snapshot>,
    /// The slot is still being created: passes follow each other until
    /// [`Input::StreamStarted`](crate::Input::StreamStarted).
    pub without_stream: bool,
    /// The publication is useless and its repair was refused: the stream brings nothing, and passes follow each other
    /// until the publication is repaired.
    pub is_unpublished: bool,
    /// The previous session met a row that is larger than any event: this session tests each row before it reads it.
    pub row_by_row: bool,
    /// Seeds the hashes of keys, whose names emitters choose, and the jitter of delays.
    pub seed: u64,
}

/// Limits on memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most events.
    pub max_events: usize,
    /// Most bytes of events, bodies included.
    pub max_bytes: usize,
}

impl Limits {
    /// The share of one ordering key, for events that wait behind the one in flight: a quarter, so that one hot key
    /// leaves room for the others.
    pub(crate) fn key_share(&self) -> Self {
        Self { max_events: (self.max_events / 4).max(1), max_bytes: self.max_bytes / 4 }
    }
}

/// In which order events with the same key (`aggregate_type`, `aggregate_id`) are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// The next event leaves once the one before has its verdict, so no nack can reorder them.
    Strict,
    /// Events of a key may be in flight together. A nack or a missing answer can reorder them; it suits one very hot
    /// key.
    Pipelined,
    /// Keys are ignored.
    None,
}

/// By which rules events are published and retried.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Order within a key.
    pub ordering: Ordering,
    /// The delay before an event is tried again.
    pub backoff: Backoff,
    /// Attempts after which an event is `FAILED`, unless `retry_for` says to go on.
    pub max_attempts: u32,
    /// An event is not `FAILED` before this time has passed since its first attempt, even if its attempts are used up.
    pub retry_for: Duration,
    /// Whether a `FAILED` event holds its key.
    pub hold_failed: bool,
}

impl Policy {
    /// Whether an event with this verdict holds its key.
    pub(crate) fn holds(&self, status: Status) -> bool {
        status == Status::Pending || status == Status::Failed && self.hold_failed
    }

    /// The verdict after attempt number `attempts` has failed and counts: `PENDING`, or `FAILED` once attempts and time
    /// are used up.
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
    /// Delay after the first attempt; it doubles with each further attempt.
    pub base: Duration,
    /// Longest delay.
    pub max: Duration,
}

impl Backoff {
    /// Delay after attempt number `attempt`, from 1. It is random between half and all of the exponential step, so that
    /// events that failed together do not come back together.
    pub fn delay(&self, attempt: u32, jitter: &mut fastrand::Rng) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1).min(31));
        let step = self.base.saturating_mul(factor).min(self.max);
        step.mul_f64(0.5 + jitter.f64() / 2.0)
    }

    /// Delay after an attempt that did not count because of an outage. It equals the outage's length so far, so it
    /// grows exponentially as well.
    pub(crate) fn outage_delay(&self, lasted: Duration) -> Duration {
        lasted.max(self.base).min(self.max)
    }
}

/// The time, by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The clock of this process.
    pub instant: Instant,
    /// The clock on the wall: microseconds since the Unix epoch.
    pub unix_us: i64,
}

crate::marked!(Now { instant, unix_us });

impl Now {
    /// The time that has passed, by whichever clock shows more: the process's own clock stands still while its machine
    /// sleeps.
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
