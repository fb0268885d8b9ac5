//! Limits the log lines about unknown tokens. Pure.

use std::time::{Duration, Instant};

/// Shortest time between two log lines, so that guessing does not fill the log.
const EVERY: Duration = Duration::from_mins(1);

/// Counts unknown tokens.
#[derive(Debug, Default)]
pub(super) struct WrongTokens {
    logged_at: Option<Instant>,
    times: u64,
}

impl WrongTokens {
    /// Counts one more. Returns how many came since the last log line, if the next line is due.
    pub(super) fn count(&mut self, now: Instant) -> Option<u64> {
        self.times = self.times.saturating_add(1);
        if self.logged_at.is_some_and(|logged_at| now.duration_since(logged_at) < EVERY) {
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_others_together_a_minute_later() {
        let mut wrong = WrongTokens::default();
        let begin = Instant::now();
        assert_eq!(wrong.count(begin), Some(1));
        for second in 1..60 {
            assert_eq!(wrong.count(begin + Duration::from_secs(second)), None);
        }
        assert_eq!(wrong.count(begin + EVERY), Some(60));
        assert_eq!(wrong.count(begin + EVERY), None);
    }
}
