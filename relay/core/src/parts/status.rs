//! Which position the server was told, and when it is told the next.

use std::time::{Duration, Instant};

use crate::interface::Lsn;

/// An advanced position is acknowledged no sooner after the one before, unless the server asks.
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

    /// The position that the server was told.
    pub(crate) fn sent(&self) -> Lsn {
        self.sent
    }

    /// The server wants to be told soon.
    pub(crate) fn asked(&mut self) {
        self.is_asked = true;
    }

    /// When the server is told `position`, if it does not ask before; `longest`: the time between two updates at most.
    pub(crate) fn next(&self, position: Lsn, longest: Duration) -> Instant {
        self.sent_at + if position > self.sent { STATUS_PAUSE.min(longest) } else { longest }
    }

    /// Takes the position to tell the server now, if it is time.
    pub(crate) fn take(&mut self, position: Lsn, longest: Duration, now: Instant) -> Option<Lsn> {
        (self.is_asked || self.next(position, longest) <= now).then(|| {
            *self = Self { sent: position, sent_at: now, is_asked: false };
            position
        })
    }
}
