//! Whether the session is to end, and how.

use std::time::{Duration, Instant};

use crate::interface::{End, Now};

/// Once told to end, the session takes nothing new, and ends when what is in flight is settled, or when its time is up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    /// Until when what is in flight may be settled.
    drain_until: Option<Instant>,
    /// How the session ends then; `None`: as one that was told to stop.
    after_drain: Option<End>,
    at_once: Option<End>,
    has_ended: bool,
    /// When the time was last looked at.
    looked_at: Option<Now>,
}

crate::marked!(Ending { drain_until, has_ended, looked_at } not { after_drain, at_once });

impl Ending {
    /// Whether what is in flight is to be finished.
    pub(crate) fn is_draining(&self) -> bool {
        self.drain_until.is_some()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Until when what is in flight may be settled.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.drain_until
    }

    /// Ends the session at once.
    pub(crate) fn at_once(&mut self, end: End) {
        self.at_once.get_or_insert(end);
    }

    /// Ends the session so, once what is in flight is settled; an end that was decided on before stays.
    pub(crate) fn after_drain(&mut self, end: End, until: Instant) {
        if self.drain_until.is_none() {
            (self.drain_until, self.after_drain) = (Some(until), Some(end));
        }
    }

    /// The session is told to stop. Returns whether it was not about to end.
    pub(crate) fn stop(&mut self, until: Instant) -> bool {
        // A slot over its limit goes all the same: while no relay runs nothing else would free the disk.
        self.after_drain.take_if(|end| !matches!(end, End::SlotOverLimit { .. }));
        let is_news = self.drain_until.is_none();
        self.drain_until.get_or_insert(until);
        is_news
    }

    /// The pause since the time was last looked at; 0 at first.
    pub(crate) fn pause(&mut self, now: Now) -> Duration {
        self.looked_at.replace(now).map_or(Duration::ZERO, |looked_at| now.since(looked_at))
    }

    /// How the session ends now, if it does. `is_settled`: nothing is in flight, or waits to be written; `unsettled`: events that
    /// have no verdict in the table.
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
