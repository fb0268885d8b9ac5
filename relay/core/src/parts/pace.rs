//! How many events may be published in a second (`max_rate`). Pure: time is an argument.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

/// Unused time of this length may be made up for at once, so that a loop that is late for a moment loses nothing of its
/// rate.
const BURST: Duration = Duration::from_millis(100);
/// Least time between two wake-ups, since each costs as much as many events.
const STEP: Duration = Duration::from_millis(10);

/// The rate as time: each event takes `1 / rate` of a second, and the next one leaves once that has passed.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    rate: Option<NonZeroU32>,
    /// Until when the events that have left take up the time.
    taken_until: Instant,
    /// Whether the rate allowed fewer events than were wanted, at the last call of `allows`.
    is_limiting: bool,
}

crate::marked!(Pace { taken_until, is_limiting } not { rate });

impl Pace {
    pub(crate) fn new(rate: Option<NonZeroU32>, now: Instant) -> Self {
        Self { rate, taken_until: now, is_limiting: false }
    }

    /// How many of `wanted` events may leave now.
    pub(crate) fn allows(&mut self, wanted: usize, now: Instant) -> usize {
        let Some(rate) = self.rate else { return wanted };
        let free = now.saturating_duration_since(self.begins(rate, now));
        let allowed = usize::try_from(free.as_nanos() * u128::from(rate.get()) / 1_000_000_000).unwrap_or(usize::MAX);
        self.is_limiting = allowed < wanted;
        wanted.min(allowed)
    }

    /// This many events have left.
    pub(crate) fn left(&mut self, events: usize, now: Instant) {
        if let Some(rate) = self.rate {
            self.taken_until = self.begins(rate, now) + each(rate) * u32::try_from(events).unwrap_or(u32::MAX);
        }
    }

    /// Whether the rate is what limits publishing: at most half of [`BURST`] is unused.
    pub(crate) fn is_used_up(&self, now: Instant) -> bool {
        self.rate.is_some_and(|rate| now < self.taken_until + each(rate) + BURST / 2)
    }

    /// When more events may leave; `None`: the rate delays none.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let rate = self.rate.filter(|_| self.is_limiting)?;
        Some(self.begins(rate, now) + each(rate).max(STEP))
    }

    /// From when on time is unused: at most [`BURST`] ago.
    fn begins(&self, rate: NonZeroU32, now: Instant) -> Instant {
        let earliest = now.checked_sub(BURST + each(rate));
        earliest.map_or(self.taken_until, |earliest| self.taken_until.max(earliest))
    }
}

fn each(rate: NonZeroU32) -> Duration {
    Duration::from_secs(1) / rate.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many events leave in `lasts`, if the loop runs every `step` and always has more.
    fn leave(rate: u32, lasts: Duration, step: Duration) -> usize {
        let start = Instant::now();
        let mut pace = Pace::new(NonZeroU32::new(rate), start);
        let (mut now, mut all) = (start, 0);
        while now < start + lasts {
            let events = pace.allows(1_000_000, now);
            pace.left(events, now);
            all += events;
            now += step;
        }
        all
    }

    #[test]
    fn as_many_leave_as_the_rate_says_however_often_the_loop_turns() {
        for (rate, seconds) in [(1, 20), (7, 10), (1000, 5), (50_000, 2)] {
            for step in [Duration::from_micros(100), Duration::from_millis(7), Duration::from_millis(90)] {
                let expected = usize::try_from(rate * seconds).unwrap();
                let events = leave(rate, Duration::from_secs(seconds.into()), step);
                let burst = usize::try_from(rate / 10).unwrap() + 1;
                assert!((expected - burst..=expected + burst).contains(&events), "{rate} a second, {step:?}: {events}");
            }
        }
    }

    #[test]
    fn what_was_not_used_leaves_at_once_for_a_tenth_of_a_second_only() {
        let start = Instant::now();
        let mut pace = Pace::new(NonZeroU32::new(1000), start);
        let later = start + Duration::from_secs(60);
        assert_eq!(pace.allows(5000, later), 101);
        pace.left(101, later);
        assert_eq!(pace.allows(5000, later), 0);
        assert!(pace.is_used_up(later) && !pace.is_used_up(later + BURST));
        assert_eq!(pace.next(later), Some(later + STEP));
        assert_eq!(pace.allows(5, later + STEP), 5);
        assert_eq!(pace.next(later), None);
    }

    #[test]
    fn without_a_rate_all_leave() {
        let now = Instant::now();
        let mut pace = Pace::new(None, now);
        assert_eq!(pace.allows(1000, now), 1000);
        pace.left(1000, now);
        assert_eq!((pace.allows(1000, now), pace.next(now), pace.is_used_up(now)), (1000, None, false));
    }
}
