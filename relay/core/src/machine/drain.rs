//! How a session ends: asked from outside, or decided here.

use std::time::Instant;

use super::Core;
use crate::{
    faults::{self, Fault},
    interface::{End, Now, Report},
};

impl Core {
    /// The session was asked to stop.
    pub(super) fn drain(&mut self, now: Instant) {
        if self.ending.stop(now + self.config.drain_timeout) {
            self.report(Report::Draining { in_flight: self.dispatch.in_flight() });
        }
    }

    /// Ends the session once what is in flight is settled.
    pub(super) fn finish(&mut self, end: End, now: Instant) {
        self.ending.after_drain(end, now + self.config.drain_timeout);
    }

    pub(super) fn takes_nothing_new(&self) -> bool {
        self.ending.is_draining() && !faults::is_on(Fault::DrainTakesMore)
    }

    /// Whether the session ends now, and how; `None`: it goes on.
    pub(super) fn ends(&mut self, now: Now) -> Option<End> {
        let pause = self.ending.pause(now);
        if pause >= self.config.stands_still_after && !faults::is_on(Fault::FreezeUnnoticed) {
            self.ending.at_once(End::StoodStill(pause));
        }
        let is_settled =
            self.dispatch.unanswered(now.instant).0 == 0 && self.settling.is_done() && self.operations.is_idle();
        self.ending.take(is_settled, self.dispatch.unsettled(), now.instant)
    }
}
