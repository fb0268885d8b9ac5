//! When to tell of something that goes wrong again and again, or lasts: less and less often. Pure.

use std::time::{Duration, Instant};

/// Something that goes wrong again and again.
#[derive(Debug, Default)]
pub struct Repeats {
    why: String,
    times: u32,
}

impl Repeats {
    /// Whether to tell it: the first time, and then, as long as the reason is the same, each time that it has happened twice as
    /// often. And how often that is.
    pub fn count(&mut self, why: &str) -> (bool, u32) {
        if self.why != why {
            *self = Self { why: why.to_owned(), times: 0 };
        }
        self.times = self.times.saturating_add(1);
        (self.times.is_power_of_two(), self.times)
    }
}

/// Between two lines about something that lasts, at least; doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);

/// Something that lasts, and is looked at again and again.
#[derive(Debug, Default)]
pub struct Reminder {
    last: Option<Told>,
}

#[derive(Debug)]
struct Told {
    what: String,
    level: u8,
    at: Instant,
    wait: Duration,
}

impl Reminder {
    /// Whether to tell it now: at first, when it has become worse, and then less and less often. If somebody else is to blame than
    /// last time, that is news, but only once a minute.
    pub fn is_due(&mut self, what: &str, level: u8, now: Instant) -> bool {
        let wait = match &self.last {
            None => SHORTEST,
            Some(told) if level > told.level => SHORTEST,
            Some(told) if now.duration_since(told.at) < if told.what == what { told.wait } else { SHORTEST } => {
                return false;
            }
            Some(told) if told.what == what => (told.wait * 2).min(LONGEST),
            Some(_) => SHORTEST,
        };
        self.last = Some(Told { what: what.to_owned(), level, at: now, wait });
        true
    }

    /// It is over. Says whether it was told.
    pub fn is_over(&mut self) -> bool {
        self.last.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_told_less_and_less_often_and_a_new_reason_at_once() {
        let mut repeats = Repeats::default();
        let told: Vec<u32> = (0..1000)
            .map(|_| repeats.count("refused"))
            .filter(|(is_told, _)| *is_told)
            .map(|(_, times)| times)
            .collect();
        assert_eq!(told, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        assert_eq!(repeats.count("timed out"), (true, 1));
    }

    #[test]
    fn what_lasts_is_told_less_and_less_often_and_what_gets_worse_at_once() {
        let start = Instant::now();
        let mut reminder = Reminder::default();
        let at = |seconds| start + Duration::from_secs(seconds);
        let told: Vec<u64> = (0..3000).filter(|seconds| reminder.is_due("a", 1, at(*seconds))).collect();
        assert_eq!(told, [0, 60, 180, 420, 900, 1860]);
        assert!(reminder.is_due("a", 2, at(3000)), "worse");
        assert!(!reminder.is_due("b", 2, at(3059)) && reminder.is_due("b", 2, at(3060)), "another one");
        assert!(reminder.is_over() && !reminder.is_over());
        assert!(reminder.is_due("b", 1, at(3061)), "anew");
    }
}
