//! When a failure that repeats or a condition that lasts is logged: less and less often. Pure.

use std::time::{Duration, Instant};

/// A failure that repeats, counted by its reason.
#[derive(Debug, Default)]
pub struct Repeats {
    why: String,
    times: u32,
}

impl Repeats {
    /// Counts a failure for the reason `why`. Returns whether to log it, and how often it has happened in a row.
    ///
    /// It is logged the first time, and then each time that the count has doubled. Another reason starts a new count.
    pub fn count(&mut self, why: &str) -> (bool, u32) {
        if self.why != why {
            *self = Self { why: why.to_owned(), times: 0 };
        }
        self.times = self.times.saturating_add(1);
        (self.times.is_power_of_two(), self.times)
    }
}

/// Shortest pause between two log lines about a lasting condition; it doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);

/// A lasting condition that is checked repeatedly.
#[derive(Debug, Default)]
pub struct Reminder {
    last: Option<Logged>,
}

/// The last log line about the condition.
#[derive(Debug)]
struct Logged {
    what: String,
    level: u8,
    at: Instant,
    wait: Duration,
}

impl Reminder {
    /// Whether to log the condition now: the first time, at a higher `level`, and then less and less often. Another
    /// cause `what` is logged at once, but at most once a minute.
    pub fn is_due(&mut self, what: &str, level: u8, now: Instant) -> bool {
        let wait = match &self.last {
            None => SHORTEST,
            Some(last) if level > last.level => SHORTEST,
            Some(last) if now.duration_since(last.at) < if last.what == what { last.wait } else { SHORTEST } => {
                return false;
            }
            Some(last) if last.what == what => (last.wait * 2).min(LONGEST),
            Some(_) => SHORTEST,
        };
        self.last = Some(Logged { what: what.to_owned(), level, at: now, wait });
        true
    }

    /// Ends the condition. Returns whether it was logged.
    pub fn is_over(&mut self) -> bool {
        self.last.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_failure_is_logged_less_and_less_often_and_a_new_reason_at_once() {
        let mut repeats = Repeats::default();
        let logged: Vec<u32> = (0..1000)
            .map(|_| repeats.count("refused"))
            .filter(|(is_logged, _)| *is_logged)
            .map(|(_, times)| times)
            .collect();
        assert_eq!(logged, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(repeats.count("timed out"), (true, 1));
    }

    #[test]
    fn a_lasting_condition_is_logged_less_and_less_often_and_a_worse_one_at_once() {
        let start = Instant::now();
        let mut reminder = Reminder::default();
        let at = |seconds| start + Duration::from_secs(seconds);
        let logged: Vec<u64> = (0..3000).filter(|seconds| reminder.is_due("a", 1, at(*seconds))).collect();
        assert_eq!(logged, [0, 60, 180, 420, 900, 1860]);
        assert!(reminder.is_due("a", 2, at(3000)), "worse");
        assert!(!reminder.is_due("b", 2, at(3059)) && reminder.is_due("b", 2, at(3060)), "another one");
        assert!(reminder.is_over() && !reminder.is_over());
        assert!(reminder.is_due("b", 1, at(3061)), "anew");
    }
}
