//! How long finished events are kept, and what a visit of a range leaves there.

use std::time::Duration;

/// How long finished events are kept; `None` for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Retention time of SENT events.
    pub sent: Option<Duration>,
    /// Retention time of FAILED events.
    pub failed: Option<Duration>,
}

impl Policy {
    /// Whether any events are ever deleted.
    pub(crate) fn deletes(&self) -> bool {
        self.shortest().is_some()
    }

    /// Returns the shorter of both times; `None` if nothing is ever deleted.
    pub(super) fn shortest(&self) -> Option<Duration> {
        self.sent.into_iter().chain(self.failed).min()
    }

    /// Returns the time until the first event of a range is old, from the ages of its oldest event of each kind.
    pub(super) fn first_is_old_in(&self, left: &Left) -> Option<Duration> {
        let sent = self.sent.zip(left.sent).map(|(kept, age)| kept.saturating_sub(age));
        let failed = self.failed.zip(left.failed).map(|(kept, age)| kept.saturating_sub(age));
        sent.into_iter().chain(failed).min()
    }
}

/// The remaining finished events of a range: the ages of the oldest of each kind that may be deleted one day (`None` if
/// there is none), and the numbers of old events that stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) sent: Option<Duration>,
    pub(super) failed: Option<Duration>,
    pub(super) kept_back: KeptBack,
}

/// Numbers of old events that stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptBack {
    /// Events that hold their keys.
    pub(super) holding: i64,
    /// Events whose deletion was refused.
    pub(super) refused: i64,
}
