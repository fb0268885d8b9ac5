//! The position that is acknowledged.

use std::time::Instant;

use super::Core;
use crate::interface::{Effect, Lsn};

impl Core {
    /// The position that may be acknowledged: up to there everything has its verdict, or stands in the table for all to see.
    pub fn acknowledged(&self) -> Lsn {
        let flushed = self.progress.flushed();
        self.ack_limit().map_or(flushed, |limit| flushed.min(limit).max(self.status.sent()))
    }

    /// The first commit of which something was left to the table, and that is not yet visible.
    fn ack_limit(&self) -> Option<Lsn> {
        [self.resync.ack_limit(), self.deferred.ack_limit(), self.long_unsettled.ack_limit()]
            .into_iter()
            .flatten()
            .min()
    }

    /// When to look up whether what limits the acknowledged position is visible by now.
    pub(super) fn look_up_at(&self) -> Option<Instant> {
        let is_limited = self.ack_limit().is_some_and(|limit| limit < self.progress.flushed());
        is_limited.then(|| self.operations.next_look_up())
    }

    /// Tells the server how far everything is settled: regularly, when it asks, and soon after an advance.
    pub(super) fn acknowledge(&mut self, now: Instant) -> Option<Effect> {
        let position = self.acknowledged();
        self.status.take(position, self.config.status_interval, now).map(Effect::Acknowledge)
    }

    /// When the server is told next, if it does not ask before.
    pub(super) fn next_status(&self) -> Instant {
        self.status.next(self.acknowledged(), self.config.status_interval)
    }
}
