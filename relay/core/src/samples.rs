//! Settings and an event, from which the core's tests and the simulator's make theirs.

use std::time::Duration;

use crate::interface::{Backoff, Config, Limits, Ordering, Policy};
#[cfg(test)]
use crate::interface::{Destination, Event, Text};

/// Settings of a relay.
pub fn config() -> Config {
    Config {
        in_flight: 100,
        max_rate: None,
        limits: Limits { max_events: 8, max_bytes: 1 << 20 },
        policy: Policy {
            ordering: Ordering::Strict,
            backoff: Backoff { base: Duration::from_millis(10), max: Duration::from_secs(1) },
            max_attempts: 3,
            retry_for: Duration::ZERO,
            hold_failed: true,
        },
        settle_batch: 100,
        settle_interval: Duration::ZERO,
        park_after: Duration::from_secs(1),
        silent_after: Duration::from_secs(4),
        confirm_timeout: Duration::from_secs(30),
        max_slot_wal: None,
        check_interval: Duration::from_secs(3600),
        drain_timeout: Duration::from_secs(5),
        status_interval: Duration::from_secs(10),
        stands_still_after: Duration::from_secs(30),
        repairs_publication: true,
        reports_delivered: false,
    }
}

#[cfg(test)]
pub(crate) fn event(seq: i64) -> std::sync::Arc<Event> {
    std::sync::Arc::new(Event {
        id: uuid::Uuid::from_u128(seq as u128),
        seq,
        destination: Destination { exchange: None, topic: Text::from_static("a") },
        event_type: None,
        aggregate_type: None,
        aggregate_id: None,
        body: Ok(bytes::Bytes::new()),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 0,
        attempts: 0,
        committed_at_us: None,
        first_attempted_at_us: None,
        holds_key: false,
        replays: 0,
    })
}
