//! Which position was last acknowledged to the server, and when the next status update is due.

use std::time::{Duration, Instant};

use crate::interface::Lsn;

/// Least time between two status updates, unless the server asks for one.
const STATUS_PAUSE: Duration = Duration::from_millis(100);

/// The last status update.
#[derive(Clone, Debug)]
pub(crate) struct StatusUpdates {
    sent: Lsn,
    sent_at: Instant,
    is_asked: bool,
}

crate::marked!(StatusUpdates { sent, sent_at, is_asked });

impl StatusUpdates {
    pub(crate) fn new(now: Instant) -> Self {
        Self { sent: Lsn(0), sent_at: now, is_asked: false }
    }

    /// The position in the last status update.
    pub(crate) fn sent(&self) -> Lsn {
        self.sent
    }

    /// The server asks for a status update.
    pub(crate) fn asked(&mut self) {
        self.is_asked = true;
    }

    /// When the next status update is due, unless the server asks for one before. `longest`: the most time between two.
    pub(crate) fn next(&self, position: Lsn, longest: Duration) -> Instant {
        self.sent_at + if position > self.sent { STATUS_PAUSE.min(longest) } else { longest }
    }

    /// Takes the position for a status update, if one is due.
    pub(crate) fn take(&mut self, position: Lsn, longest: Duration, now: Instant) -> Option<Lsn> {
        (self.is_asked || self.next(position, longest) <= now).then(|| {
            *self = Self { sent: position, sent_at: now, is_asked: false };
            position
        })
    }
}
