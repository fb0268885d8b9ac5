//! Whether the session is to end, and how.

use std::time::{Duration, Instant};

use crate::interface::{End, Now};

/// The end of the session. Once it is decided, the session takes nothing new, and ends when what is in flight is
/// settled or its time is up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    /// Until when events in flight may be settled; `None`: no end is decided.
    drain_until: Option<Instant>,
    /// How the session ends after the drain; `None`: as a session that was asked to stop.
    after_drain: Option<End>,
    at_once: Option<End>,
    has_ended: bool,
    /// When the core was last asked for its end, which happens at each step.
    looked_at: Option<Now>,
}

crate::marked!(Ending { drain_until, has_ended, looked_at } not { after_drain, at_once });

impl Ending {
    /// Whether the session only finishes what is in flight.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain_until.is_some()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Until when events in flight may be settled; `None`: no end is decided.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.drain_until
    }

    /// Ends the session at once.
    pub(crate) fn at_once(&mut self, end: End) {
        self.at_once.get_or_insert(end);
    }

    /// Ends the session with `end` once what is in flight is settled. An end that was decided on before stays.
    pub(crate) fn after_drain(&mut self, end: End, until: Instant) {
        if self.drain_until.is_none() {
            (self.drain_until, self.after_drain) = (Some(until), Some(end));
        }
    }

    /// The session was asked to stop. Returns whether no end was decided yet.
    pub(crate) fn stop(&mut self, until: Instant) -> bool {
        // A slot over its limit is dropped all the same: while no relay runs, nothing else would free the disk.
        self.after_drain.take_if(|end| !matches!(end, End::SlotOverLimit { .. }));
        let is_news = self.drain_until.is_none();
        self.drain_until.get_or_insert(until);
        is_news
    }

    /// The pause since the last call; 0 at the first.
    pub(crate) fn pause(&mut self, now: Now) -> Duration {
        self.looked_at.replace(now).map_or(Duration::ZERO, |looked_at| now.since(looked_at))
    }

    /// How the session ends now; `None`: it goes on. `is_settled`: nothing is in flight or waits to be written;
    /// `unsettled`: events in memory without a written verdict.
    pub(crate) fn take(&mut self, is_settled: bool, unsettled: usize, now: Instant) -> Option<End> {
        let end = self.at_once.take().or_else(|| {
            let until = self.drain_until?;
            if is_settled {
                return Some(self.after_drain.take().unwrap_or(End::Drained));
            }
            (now >= until).then(|| self.after_drain.take().unwrap_or(End::DrainTimeout { unsettled }))
        });
        self.has_ended |= end.is_some();
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_slept_stood_still_although_the_clock_of_the_process_did_as_well() {
        let mut ending = Ending::default();
        let before = Now { instant: Instant::now(), unix_us: 0 };
        assert_eq!(ending.pause(before), Duration::ZERO);
        assert_eq!(ending.pause(Now { unix_us: 31_000_000, ..before }), Duration::from_secs(31));
    }

    #[test]
    fn who_stops_a_relay_ends_it_drained_unless_its_slot_is_about_to_be_dropped() {
        let now = Instant::now();
        let over_limit = End::SlotOverLimit { kept: 7 };
        for (decided, ends) in
            [(None, End::Drained), (Some(End::PublishedAgain), End::Drained), (Some(over_limit.clone()), over_limit)]
        {
            let mut ending = Ending::default();
            let is_news = decided.is_none();
            if let Some(end) = decided {
                ending.after_drain(end, now);
            }
            assert_eq!(ending.stop(now), is_news);
            assert_eq!(ending.take(true, 0, now), Some(ends));
        }
    }
}
