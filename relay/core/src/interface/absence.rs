//! Since when a broker has taken no messages, as its sink counts it.

use std::time::{Duration, Instant};

/// A connection that lives for so long has shown that the broker is back, although nothing was answered.
const PROVEN_AFTER: Duration = Duration::from_secs(5);

/// The broker's absence, through connections that open and end: one that ends before it has shown that the broker takes messages ends
/// no absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// There is no connection; nothing could be published since then.
    Away(Instant),
    /// A connection has opened that has shown nothing yet.
    Unproven {
        /// When it opened.
        opened: Instant,
        /// Since when nothing could be published before that.
        since: Instant,
    },
    /// The broker takes messages.
    Over,
}

impl Absence {
    /// A connection has opened.
    pub fn opened(&mut self, now: Instant) {
        if let Self::Away(since) = *self {
            *self = Self::Unproven { opened: now, since };
        }
    }

    /// The broker has answered about a message.
    pub fn answered(&mut self) {
        *self = Self::Over;
    }

    /// There is no connection any longer, or none was made. Returns since when nothing could be published.
    pub fn lost(&mut self, now: Instant) -> Instant {
        let since = match *self {
            Self::Away(since) => since,
            Self::Unproven { opened, since } if now.duration_since(opened) < PROVEN_AFTER => since,
            Self::Unproven { .. } | Self::Over => now,
        };
        *self = Self::Away(since);
        since
    }

    /// Since when there has been no connection; `None`: there is one.
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
