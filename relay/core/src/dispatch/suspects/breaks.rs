//! How often the line breaks by itself, and how much a break therefore weighs against the event in flight. Pure.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Times over which the rate of breaks is measured; the highest rate counts. A line that has not broken counts as
/// breaking once in the last of them.
const OVER: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];
/// Most breaks that are remembered.
const MOST: usize = 1000;
/// A break that was at most this likely without the event (3 %) weighs in full.
const UNLIKELY: f64 = 0.03;

/// When the connection has broken of late, or could not be made.
#[derive(Clone, Debug, Default)]
pub(super) struct Breaks(VecDeque<Instant>);

crate::marked!(Breaks { 0 });

impl Breaks {
    pub(super) fn note(&mut self, now: Instant) {
        let [.., longest] = OVER;
        while self.0.front().is_some_and(|at| now.duration_since(*at) > longest) || self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }

    /// Whether a break was noted after `at`.
    pub(super) fn any_since(&self, at: Instant) -> bool {
        self.0.back().is_some_and(|last| *last > at)
    }

    /// The weight of a break against an event that was in flight for `on_its_way`: from 0, if the line was likely to
    /// break in that time anyway, to 1.
    pub(super) fn evidence(&self, on_its_way: Duration, now: Instant) -> f64 {
        let rate = |over: Duration| {
            let since = self.0.partition_point(|at| now.duration_since(*at) > over);
            (self.0.len() - since) as f64 / over.as_secs_f64()
        };
        let [.., longest] = OVER;
        let a_second = OVER.into_iter().map(rate).fold(1.0 / longest.as_secs_f64(), f64::max);
        let chance = (a_second * on_its_way.as_secs_f64()).clamp(UNLIKELY, 1.0);
        chance.ln() / UNLIKELY.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_says_the_less_the_more_often_the_line_breaks_and_the_longer_the_event_was_on_its_way() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        assert!((Breaks::default().evidence(ms(100), start) - 1.0).abs() < 1e-9, "it has never broken");
        let mut breaks = Breaks::default();
        for n in 0..100 {
            breaks.note(start + n * ms(100));
        }
        let now = start + ms(10_000);
        let evidence = [1, 10, 50, 100, 1000].map(|way| breaks.evidence(ms(way), now));
        assert!(evidence.is_sorted_by(|a, b| a >= b), "{evidence:?}");
        assert!((evidence[0] - 1.0).abs() < 1e-9, "{evidence:?}");
        assert!(evidence[3].abs() < 0.1 && evidence[4].abs() < 1e-9, "{evidence:?}");
        assert!(breaks.evidence(ms(100), now + ms(30_000)) > 0.4, "it breaks no longer");
    }
}
