//! What the table keeps of events whose verdicts it lacks for long.

use uuid::Uuid;

/// An event that the broker may have, and whose verdict is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InDoubt {
    /// The event.
    pub id: Uuid,
    /// How often the event had been replayed.
    pub replays: u32,
    /// When it was first handed to the broker, in microseconds since the Unix epoch.
    pub since_us: i64,
    /// Whether the broker has confirmed it, so that only its verdict is missing.
    pub is_delivered: bool,
}

crate::marked!(InDoubt { id, replays, since_us, is_delivered });

/// What the table is to keep for the next session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Events whose verdicts are missing for long, beside those that are kept already.
    pub events: Vec<InDoubt>,
    /// The last verdict before the session, in microseconds since the Unix epoch, as long as earlier sessions may have
    /// left events without a verdict; `None`: they have left none.
    pub floor_us: Option<i64>,
}

crate::marked!(Doubts { events } not { floor_us });
