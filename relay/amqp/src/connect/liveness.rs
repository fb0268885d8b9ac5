//! When to send a heartbeat, and when the broker counts as dead. Pure: time is an argument.

use std::time::{Duration, Instant};

use super::error::AmqpError;

/// The limit for confirms of a client that publishes nothing: it never ends anything, and only sets a longest
/// [`period`](Liveness::period).
pub(crate) const NOTHING_TO_CONFIRM: Duration = Duration::from_secs(3600);

/// Times of the last signs of life.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// The interval that was agreed on; `None`: no heartbeats.
    heartbeat: Option<Duration>,
    confirm_timeout: Duration,
    read_at: Instant,
    wrote_at: Instant,
    progress_at: Instant,
}

impl Liveness {
    pub(crate) fn new(heartbeat: Option<Duration>, confirm_timeout: Duration, now: Instant) -> Self {
        Self { heartbeat, confirm_timeout, read_at: now, wrote_at: now, progress_at: now }
    }

    /// How often to [`check`](Self::check): often enough for a heartbeat to leave within its interval, and for a
    /// timeout to be noticed at most a tenth late.
    pub(crate) fn period(&self) -> Duration {
        let confirm = self.confirm_timeout / 10;
        self.heartbeat.map_or(confirm, |interval| confirm.min(interval / 2)).max(Duration::from_millis(1))
    }

    /// Bytes came from the broker.
    pub(crate) fn read(&mut self, now: Instant) {
        self.read_at = now;
    }

    /// Bytes went to the broker.
    pub(crate) fn wrote(&mut self, now: Instant) {
        self.wrote_at = now;
    }

    /// The broker has confirmed a message, had none to confirm until now, or has said that it is blocked.
    pub(crate) fn progressed(&mut self, now: Instant) {
        self.progress_at = now;
    }

    /// Whether a heartbeat is due. Fails if the broker has been silent for two intervals
    /// (<https://www.rabbitmq.com/docs/heartbeats>), or has confirmed none of `unconfirmed` messages for too long.
    pub(crate) fn check(&self, unconfirmed: usize, now: Instant) -> Result<bool, AmqpError> {
        let silent = now.duration_since(self.read_at);
        if self.heartbeat.is_some_and(|interval| silent >= interval * 2) {
            return Err(AmqpError::HeartbeatMissed(silent));
        }
        if unconfirmed > 0 && now.duration_since(self.progress_at) >= self.confirm_timeout {
            return Err(AmqpError::ConfirmTimeout { after: self.confirm_timeout, unconfirmed });
        }
        Ok(self.heartbeat.is_some_and(|interval| now.duration_since(self.wrote_at) >= interval / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn heartbeats_leave_often_enough_when_nothing_else_does() {
        for (heartbeat, confirm) in [(10, 30), (1, 1), (60, 3600), (4, 100)] {
            let interval = heartbeat * SECOND;
            let start = Instant::now();
            let mut liveness = Liveness::new(Some(interval), confirm * SECOND, start);
            let (mut now, mut wrote_at) = (start, start);
            for _ in 0..200 {
                now += liveness.period();
                liveness.read(now);
                if liveness.check(0, now).unwrap() {
                    assert!(now - wrote_at <= interval, "a gap of {:?} at {interval:?}", now - wrote_at);
                    wrote_at = now;
                    liveness.wrote(now);
                }
            }
            assert!(wrote_at > start);
        }
    }

    #[test]
    fn a_broker_that_says_nothing_for_two_intervals_is_gone() {
        let start = Instant::now();
        let mut liveness = Liveness::new(Some(10 * SECOND), 100 * SECOND, start);
        assert!(liveness.check(0, start + 19 * SECOND).is_ok());
        assert!(matches!(liveness.check(0, start + 20 * SECOND), Err(AmqpError::HeartbeatMissed(_))));
        liveness.read(start + 19 * SECOND);
        assert!(liveness.check(0, start + 20 * SECOND).is_ok());
        assert!(Liveness::new(None, 100 * SECOND, start).check(0, start + 1000 * SECOND).is_ok());
    }

    #[test]
    fn only_unconfirmed_messages_can_time_out() {
        let start = Instant::now();
        let mut liveness = Liveness::new(None, 30 * SECOND, start);
        assert!(liveness.check(0, start + 60 * SECOND).is_ok());
        assert!(matches!(
            liveness.check(7, start + 30 * SECOND),
            Err(AmqpError::ConfirmTimeout { unconfirmed: 7, .. })
        ));
        liveness.progressed(start + 29 * SECOND);
        assert!(liveness.check(7, start + 58 * SECOND).is_ok());
    }
}
