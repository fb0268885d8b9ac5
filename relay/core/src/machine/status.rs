//! Which position the server is told, and when.

use std::time::{Duration, Instant};

use crate::{
    interface::{Effect, Lsn},
    machine::Core,
    parts::Awaited,
};

/// At most so often is an advanced position acknowledged, beside the regular status updates.
const STATUS_PAUSE: Duration = Duration::from_millis(100);

/// What the server was told.
#[derive(Clone, Debug)]
pub(crate) struct StatusUpdates {
    sent: Lsn,
    sent_at: Instant,
    /// The server wants to be told soon.
    pub(crate) asked: bool,
}

impl StatusUpdates {
    pub(crate) fn new(now: Instant) -> Self {
        Self { sent: Lsn(0), sent_at: now, asked: false }
    }
}

impl Core {
    /// The position that may be acknowledged: up to there everything has its verdict, or stands in the table for all to see.
    pub fn acknowledged(&self) -> Lsn {
        self.holds_at().map_or(self.progress.flushed(), |at| self.progress.flushed().min(at).max(self.status.sent))
    }

    /// The first commit of which something was left to the table, and that cannot be seen yet.
    pub(crate) fn holds_at(&self) -> Option<Lsn> {
        [&self.resync.awaited, &self.deferred.awaited, &self.abandoned].into_iter().filter_map(Awaited::holds_at).min()
    }

    /// Tells the server how far everything is settled: regularly, when it asks, and soon after an advance.
    pub(crate) fn acknowledge(&mut self, now: Instant) -> Option<Effect> {
        (self.status.asked || self.next_status() <= now).then(|| {
            let position = self.acknowledged();
            self.status = StatusUpdates { sent: position, sent_at: now, asked: false };
            Effect::Acknowledge(position)
        })
    }

    /// When the server is told next, if it does not ask before.
    pub(crate) fn next_status(&self) -> Instant {
        let has_advanced = self.acknowledged() > self.status.sent;
        let longest = self.config.status_interval;
        self.status.sent_at + if has_advanced { STATUS_PAUSE.min(longest) } else { longest }
    }
}
