//! Whether the broker takes messages, according to the sink.

use std::time::{Duration, Instant};

/// The state of the connection to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// The broker takes messages.
    Ready,
    /// The broker blocks publishing. Nothing could be published since this moment.
    Blocked(Instant),
    /// No connection is open. Nothing could be published since this moment.
    Away(Instant),
}

#[cfg(feature = "faults")]
impl crate::Marked for Link {
    fn mark(&self, marks: &mut crate::Marks) {
        self.is_blocked().mark(marks);
        self.away_since().mark(marks);
    }
}

impl Link {
    pub(crate) fn new(away_since: Option<Instant>) -> Self {
        away_since.map_or(Self::Ready, Self::Away)
    }

    /// Whether events may be published now.
    pub(crate) fn is_ready(self) -> bool {
        self == Self::Ready
    }

    /// Whether the broker has blocked publishing.
    pub(crate) fn is_blocked(self) -> bool {
        matches!(self, Self::Blocked(_))
    }

    /// Since when nothing could be published; `None`: the broker takes messages.
    pub(crate) fn away_since(self) -> Option<Instant> {
        match self {
            Self::Ready => None,
            Self::Blocked(since) | Self::Away(since) => Some(since),
        }
    }

    /// A connection takes messages. Returns how long nothing could be published.
    pub(crate) fn ready(&mut self, now: Instant) -> Duration {
        let away = self.away_since().map_or(Duration::ZERO, |since| now.duration_since(since));
        *self = Self::Ready;
        away
    }

    /// The broker no longer blocks publishing. Returns whether it had.
    pub(crate) fn unblocked(&mut self) -> bool {
        let was_blocked = self.is_blocked();
        if was_blocked {
            *self = Self::Ready;
        }
        was_blocked
    }

    pub(crate) fn blocked(&mut self, now: Instant) {
        *self = Self::Blocked(self.away_since().unwrap_or(now));
    }

    /// No connection is open since `since`. Returns how long nothing could be published.
    pub(crate) fn lost(&mut self, since: Instant, now: Instant) -> Duration {
        let since = self.away_since().map_or(since, |earlier| earlier.min(since));
        *self = Self::Away(since);
        now.duration_since(since)
    }
}
