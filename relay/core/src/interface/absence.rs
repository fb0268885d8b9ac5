//! How long a broker has been absent, across connection attempts. A sink keeps one, and the simulator does as well.

use std::time::{Duration, Instant};

/// A connection that stays open this long proves that the broker is back, even if it has answered no message.
const PROVEN_AFTER: Duration = Duration::from_secs(5);

/// The broker's absence. A connection that ends before it has proven itself does not end the absence, so that its
/// length does not start again with each attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// No connection is open. Nothing could be published since this moment.
    Away(Instant),
    /// A connection is open and has proven nothing yet.
    Unproven {
        /// When the connection opened.
        opened: Instant,
        /// Since when nothing could be published before the connection opened.
        since: Instant,
    },
    /// The broker takes messages.
    Over,
}

#[cfg(feature = "faults")]
impl crate::Marked for Absence {
    fn mark(&self, marks: &mut crate::Marks) {
        match *self {
            Self::Away(since) => (0_u8, since).mark(marks),
            Self::Unproven { opened, since } => (1_u8, (opened, since)).mark(marks),
            Self::Over => marks.plain(2),
        }
    }
}

impl Absence {
    /// A connection has opened.
    pub fn opened(&mut self, now: Instant) {
        if let Self::Away(since) = *self {
            *self = Self::Unproven { opened: now, since };
        }
    }

    /// The broker has answered about a message, which proves the connection.
    pub fn answered(&mut self) {
        *self = Self::Over;
    }

    /// The connection has ended, or an attempt to connect has failed. Returns since when nothing could be published.
    pub fn lost(&mut self, now: Instant) -> Instant {
        let since = match *self {
            Self::Away(since) => since,
            Self::Unproven { opened, since } if now.duration_since(opened) < PROVEN_AFTER => since,
            Self::Unproven { .. } | Self::Over => now,
        };
        *self = Self::Away(since);
        since
    }

    /// Since when no connection has been open; `None` while one is open.
    pub fn away_since(&self) -> Option<Instant> {
        match *self {
            Self::Away(since) => Some(since),
            Self::Unproven { .. } | Self::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_shows_nothing_ends_no_absence_and_one_that_is_answered_or_lives_does() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut absence = Absence::Away(start);
        absence.opened(at(10));
        assert_eq!((absence.away_since(), absence.lost(at(12))), (None, start));
        absence.opened(at(20));
        absence.answered();
        assert_eq!(absence.lost(at(21)), at(21));
        absence.opened(at(30));
        assert_eq!((absence.lost(at(35)), absence.lost(at(40))), (at(35), at(35)));
    }
}
