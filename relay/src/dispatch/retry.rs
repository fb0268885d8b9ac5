//! When a refused event is tried again.

use std::time::Duration;

/// Exponential back-off with jitter, and a limit.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Delay after the first attempt; doubles with each further one.
    pub base: Duration,
    /// Longest delay.
    pub max: Duration,
    /// After this many attempts the event is `FAILED`.
    pub max_attempts: u32,
}

impl Retry {
    /// Delay after attempt number `attempt` (1 is the first): between half and all of the exponential step, so that
    /// events that failed together do not come back together.
    pub fn delay(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1).min(31));
        let step = self.base.saturating_mul(factor).min(self.max);
        step.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Delay after an attempt that did not count, since the broker has refused everything for so long: as long again, so that
    /// it grows as fast.
    pub fn outage_delay(&self, lasted: Duration) -> Duration {
        lasted.max(self.base).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_its_limit_and_is_jittered_down_to_half() {
        let retry = Retry { base: Duration::from_millis(200), max: Duration::from_secs(60), max_attempts: 10 };
        for (attempt, step) in [(1, 200), (2, 400), (5, 3200), (9, 51_200), (10, 60_000), (u32::MAX, 60_000)] {
            let step = Duration::from_millis(step);
            for _ in 0..100 {
                let delay = retry.delay(attempt);
                assert!(step / 2 <= delay && delay <= step, "attempt {attempt}: {delay:?}");
            }
        }
    }
}
