//! What the sink says about one message.

use uuid::Uuid;

/// The broker's answer about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The event.
    pub id: Uuid,
    /// What the broker has done with it.
    pub outcome: Outcome,
}

crate::marked!(Answer { id } not { outcome });

/// What the broker has done with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Taken and routed.
    Delivered,
    /// It will not be taken, however often it is sent.
    Rejected(String),
    /// It may be taken when it is sent again. That counts as an attempt.
    Retry(String),
    /// Where it was to go takes nothing now. Whether that counts as an attempt depends on what becomes of other messages.
    Unavailable(String),
}
