//! The rules of the operator's choice.

use std::time::Duration;

use super::{Now, Retry, Status};
use crate::event::Event;

/// How events with the same key (`aggregate_type`, `aggregate_id`) leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// The next leaves when the one before has its verdict: no nack can reorder them.
    Strict,
    /// They may be in flight together; a nack between them can reorder. For one very hot key.
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
    pub retry: Retry,
    /// An event is `FAILED` after its attempts are used up, and not before its first one lies so long back.
    pub retry_for: Duration,
    /// Whether an event that has `FAILED` holds its key.
    pub hold_failed: bool,
}

impl Policy {
    /// What becomes of an event after a refusal that counts, its `attempts`th.
    pub(super) fn after_refusal(
        &self,
        error: String,
        attempts: u32,
        event: &Event,
        now: Now,
    ) -> (Status, Option<String>) {
        let tried_us = event.first_attempted_at_us.map_or(0, |first| now.unix_us.saturating_sub(first).max(0));
        let tried_for = Duration::from_micros(tried_us.unsigned_abs());
        if attempts < self.retry.max_attempts || tried_for < self.retry_for {
            return (Status::Pending, Some(error));
        }
        let times = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
        (Status::Failed, Some(format!("{error}, {times} in {} s", tried_for.as_secs())))
    }
}
