//! The rules of the operator's choice.

use super::Retry;

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
    /// Whether an event that has `FAILED` holds its key.
    pub hold_failed: bool,
}
