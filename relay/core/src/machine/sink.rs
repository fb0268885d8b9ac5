//! What follows from the sink's news: outcomes of events, and whether the broker takes messages.

use std::{sync::Arc, time::Instant};

use uuid::Uuid;

use super::Core;
use crate::{
    dispatch::{Alone, Loss, Silence},
    interface::{Effect, Event, Notice, Now, Outcome, Report, Status, Verdict},
};

impl Core {
    pub(super) fn noticed(&mut self, notice: Notice, now: Now) {
        match notice {
            Notice::Outcomes(outcomes) => self.answered(outcomes, now),
            Notice::Ready { host, is_proven, is_new_identity, side_channels } => {
                if is_new_identity {
                    self.read_back.lost_identity();
                }
                self.dispatch.silences.connected(side_channels);
                self.dispatch.connected(is_proven, now.instant);
                let away = self.link.ready(now.instant);
                self.report(Report::BrokerBack { host, away });
            }
            Notice::Unblocked => {
                if self.link.unblocked() {
                    self.report(Report::BrokerUnblocked);
                }
            }
            Notice::Blocked(reason) => {
                self.link.blocked(now.instant);
                self.report(Report::BrokerBlocked(reason));
            }
            Notice::Away { error, since, may_be_a_message } => self.away(error, since, may_be_a_message, now),
        }
    }

    fn away(&mut self, error: String, since: Instant, may_be_a_message: bool, now: Now) {
        let in_flight = self.dispatch.in_flight();
        let loss = if may_be_a_message { Loss::MaybeMessage(&error) } else { Loss::Outage };
        let alone = self.dispatch.lost(loss, now.instant);
        let lasted = self.link.lost(since, now.instant);
        if let Some(Alone { event, verdict, times }) = alone {
            let Verdict { status, error: failed, retry_in, .. } = verdict.clone();
            self.read_back.put_off(&event, now);
            self.report(match retry_in {
                Some(retry_in) => Report::EndedAlone { event, error: error.clone(), times, retry_in },
                None => Report::Answered { event, status, error: failed },
            });
            self.settling.push(verdict, now.instant);
        }
        self.report(Report::BrokerAway { error, lasted, in_flight });
    }

    /// Gives up the connection if destinations leave messages unanswered while others wait.
    pub(super) fn connect_anew(&mut self, now: Instant) -> Option<Effect> {
        if !self.link.is_ready() || self.ending.is_draining() {
            self.dispatch.silences.rest();
            return None;
        }
        let Silence { event, events, destinations } = self.dispatch.finds_silence(self.may_publish() == 0, now)?;
        self.link.lost(now, now);
        self.report(Report::Silent { event, events, destinations });
        Some(Effect::ConnectAnew)
    }

    pub(super) fn answered(&mut self, outcomes: Vec<(Uuid, Outcome)>, now: Now) {
        for (id, outcome) in outcomes {
            self.read_back.answered(&id, &outcome, now.instant);
            let Some((verdict, event)) = self.dispatch.answered(&id, outcome, now) else { continue };
            if verdict.status == Status::Sent {
                self.tally.confirmed(event.committed_at_us, now.unix_us);
            }
            self.decided(verdict, event, now.instant);
        }
    }

    /// An event has its verdict, which is to be written.
    pub(super) fn decided(&mut self, verdict: Verdict, event: Arc<Event>, now: Instant) {
        if verdict.error.is_some() || self.config.reports_delivered {
            let (status, error) = (verdict.status, verdict.error.clone());
            self.report(Report::Answered { event, status, error });
        }
        self.settling.push(verdict, now);
    }
}
