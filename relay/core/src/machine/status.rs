//! The position that is acknowledged to the server.

use std::time::Instant;

use super::Core;
use crate::interface::{Effect, Lsn};

impl Core {
    /// The position up to which the WAL may be acknowledged: every event before it has its verdict, or is visible in
    /// the table.
    pub fn acknowledged(&self) -> Lsn {
        let flushed = self.progress.flushed();
        self.ack_limit().map_or(flushed, |limit| flushed.min(limit).max(self.status.sent()))
    }

    /// The first commit that left events to the table and is not yet visible; `None`: there is none.
    fn ack_limit(&self) -> Option<Lsn> {
        [self.resync.ack_limit(), self.deferred.ack_limit(), self.long_unsettled.ack_limit()]
            .into_iter()
            .flatten()
            .min()
    }

    /// When to look up whether the commits that limit the acknowledged position have become visible; `None`: none
    /// limits it.
    pub(super) fn look_up_at(&self) -> Option<Instant> {
        let is_limited = self.ack_limit().is_some_and(|limit| limit < self.progress.flushed());
        is_limited.then(|| self.operations.next_look_up())
    }

    /// Sends a status update: regularly, when the server asks for one, and soon after an advance.
    pub(super) fn acknowledge(&mut self, now: Instant) -> Option<Effect> {
        let position = self.acknowledged();
        self.status.take(position, self.config.status_interval, now).map(Effect::Acknowledge)
    }

    /// When the next status update is due, unless the server asks for one before.
    pub(super) fn next_status(&self) -> Instant {
        self.status.next(self.acknowledged(), self.config.status_interval)
    }
}
