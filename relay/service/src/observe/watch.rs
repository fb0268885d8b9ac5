//! When a session publishes its figures: often enough for readers, and seldom enough to cost nothing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Observed, view::Shown};

/// Shortest time between two publications.
const BUSY: Duration = Duration::from_millis(100);
/// Longest time between two publications. It is a fraction of [`super::PULSE_LIMIT`], to show that the loop is alive.
const IDLE: Duration = Duration::from_secs(2);

/// A session's side of [`Observed`].
#[derive(Debug)]
pub(crate) struct Watch {
    observed: Arc<Observed>,
    published_at: Option<Instant>,
    /// Whether the loop has had an iteration since the last publication.
    has_iterated: bool,
}

impl Watch {
    pub(crate) fn new(observed: Arc<Observed>) -> Self {
        Self { observed, published_at: None, has_iterated: false }
    }

    /// Publishes the figures, if they are due, at an iteration of the loop. Returns when they are due again.
    pub(crate) fn iterate(&mut self, now: Instant, show: impl FnOnce() -> Shown) -> Instant {
        let is_due = self.published_at.is_none_or(|at| now.duration_since(at) >= BUSY);
        if is_due {
            self.observed.publish(show());
        }
        self.has_iterated = !is_due;
        let published_at = if is_due { *self.published_at.insert(now) } else { self.published_at.unwrap_or(now) };
        published_at + if self.has_iterated { BUSY } else { IDLE }
    }

    /// Publishes the last figures.
    pub(crate) fn end(&mut self, shown: Shown) {
        self.observed.publish(shown);
    }
}

/// Takes note of the session's end, however it ends.
impl Drop for Watch {
    fn drop(&mut self) {
        self.observed.session_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::ANY;

    #[test]
    fn a_busy_loop_publishes_ten_times_a_second_and_an_idle_one_every_two_seconds() {
        let mut watch = Watch::new(Arc::new(Observed::new(&ANY)));
        let start = Instant::now();
        let mut published = 0;
        let mut iterate = |after_ms: u64| {
            let now = start + Duration::from_millis(after_ms);
            let next = watch.iterate(now, || {
                published += 1;
                Default::default()
            });
            (published, next.duration_since(start).as_millis())
        };
        assert_eq!(iterate(0), (1, 2000), "an idle loop");
        assert_eq!(iterate(50), (1, 100), "something has happened, and will be published");
        assert_eq!(iterate(60), (1, 100));
        assert_eq!(iterate(100), (2, 2100));
        assert_eq!(iterate(2100), (3, 4100));
    }
}
