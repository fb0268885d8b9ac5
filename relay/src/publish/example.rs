//! An event for the tests of this module.

use uuid::Uuid;

use crate::event::{Event, Text};

/// An event with the least that it can have.
pub(super) fn event(id: u128) -> Event {
    Event {
        id: Uuid::from_u128(id),
        seq: 1,
        exchange: None,
        topic: Text::from_static("topic"),
        event_type: None,
        aggregate_type: None,
        aggregate_id: None,
        body: Ok("{}".into()),
        content_type: Text::from_static("application/json"),
        headers: None,
        correlation_id: None,
        created_at_us: 1,
        attempts: 0,
        first_attempted_at_us: None,
        holds_key: false,
    }
}
