//! What happens to an event whose destination does not exist.

use outbox_core::Outcome;

/// What happens to an event whose destination does not exist: no queue is bound for it, or there is no such topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// The event is `FAILED` at once.
    Fail,
    /// The event is retried with its back-off, and counts an attempt each time.
    Retry,
}

impl Unroutable {
    /// The outcome of such an event.
    pub(super) fn outcome(self, error: String) -> Outcome {
        match self {
            Self::Fail => Outcome::Rejected(error),
            Self::Retry => Outcome::Retry(error),
        }
    }
}
