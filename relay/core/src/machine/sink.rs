//! What follows from the broker's answers, and from its absence.

use std::time::{Duration, Instant};

use crate::{
    dispatch::{Alone, Loss, Silence},
    interface::{Answer, Effect, Notice, Now, Report, Status, Verdict},
    machine::Core,
};

/// A connection that lives for so long has shown that the broker is back, although nothing was answered.
const PROVEN_AFTER: Duration = Duration::from_secs(5);

/// Whether the broker takes messages, as far as is known.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    state: LinkState,
    away_since: Option<Instant>,
    /// Since when the broker had been away when this connection opened, which has not answered anything yet; and when that was.
    unproven: Option<(Instant, Instant)>,
    /// Times in a row that no connection was made.
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Ready,
    Blocked,
    Away,
}

impl Link {
    pub(crate) fn new(away_since: Option<Instant>) -> Self {
        let state = if away_since.is_none() { LinkState::Ready } else { LinkState::Away };
        Self { state, away_since, unproven: None, failures: 0 }
    }

    /// Whether events may be published now.
    pub(crate) fn is_ready(&self) -> bool {
        self.state == LinkState::Ready
    }

    /// Whether the broker has blocked publishing.
    pub(crate) fn is_blocked(&self) -> bool {
        self.state == LinkState::Blocked
    }

    /// Since when nothing could be published.
    pub(crate) fn away_since(&self) -> Option<Instant> {
        self.away_since
    }

    fn ready(&mut self, host: String, now: Instant) -> Report {
        self.state = LinkState::Ready;
        self.failures = 0;
        self.unproven = self.away_since.take().map(|since| (since, now));
        let away = self.unproven.map_or(Duration::ZERO, |(since, _)| now.duration_since(since));
        Report::BrokerBack { host, away }
    }

    /// Returns whether that is news: it may have been blocked for so short that nobody was told.
    fn unblocked(&mut self) -> bool {
        let was_blocked = self.state == LinkState::Blocked;
        if was_blocked {
            (self.state, self.away_since) = (LinkState::Ready, None);
        }
        was_blocked
    }

    fn blocked(&mut self, now: Instant) {
        self.state = LinkState::Blocked;
        self.away_since.get_or_insert(now);
    }

    /// Returns for how long the broker has been away.
    fn lost(&mut self, now: Instant) -> Duration {
        self.state = LinkState::Away;
        self.failures = self.failures.saturating_add(1);
        // A broker that lets the relay in and refuses what it publishes has never been back.
        let proves_nothing = |opened: Instant| now.duration_since(opened) < PROVEN_AFTER;
        let since = self.unproven.take().filter(|(_, opened)| proves_nothing(*opened)).map_or(now, |(since, _)| since);
        now.duration_since(*self.away_since.get_or_insert(since))
    }
}

impl Core {
    pub(crate) fn noticed(&mut self, notice: Notice, now: Now) {
        match notice {
            Notice::Answers(answers) => self.answered(answers, now),
            Notice::Ready { host, is_proven, side_channels } => {
                self.dispatch.silences.connected(side_channels);
                self.dispatch.connected(is_proven, now.instant);
                let report = self.link.ready(host, now.instant);
                self.report(report);
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
            Notice::Away(error) => self.away(error, false, now),
            Notice::Ended(error) => self.away(error, true, now),
        }
    }

    fn away(&mut self, error: String, may_be_a_message: bool, now: Now) {
        let in_flight = self.dispatch.in_flight();
        let alone =
            self.dispatch.lost(if may_be_a_message { Loss::MaybeMessage(&error) } else { Loss::Outage }, now.instant);
        let lasted = self.link.lost(now.instant);
        if let Some(Alone { event, verdict, times }) = alone {
            let Verdict { status, error: failed, retry_in, .. } = verdict.clone();
            self.report(match retry_in {
                Some(retry_in) => Report::EndedAlone { event, error: error.clone(), times, retry_in },
                None => Report::Answered { event, status, error: failed },
            });
            self.settling.push(verdict, now.instant);
        }
        self.report(Report::BrokerAway { error, times: self.link.failures, lasted, in_flight });
    }

    /// Gives the connection up if destinations leave messages unanswered while others wait.
    pub(crate) fn connect_anew(&mut self, now: Instant) -> Option<Effect> {
        if !self.link.is_ready() || self.drain_until.is_some() {
            self.dispatch.silences.rest();
            return None;
        }
        let Silence { event, events, routes } = self.dispatch.finds_silence(self.may_publish() == 0, now)?;
        self.link.lost(now);
        self.report(Report::Silent { event, events, routes });
        Some(Effect::ConnectAnew)
    }

    pub(crate) fn answered(&mut self, answers: Vec<Answer>, now: Now) {
        self.link.unproven = None; // not when it opens: a broker that accepts a connection may still refuse every message
        for Answer { id, outcome } in answers {
            let Some((verdict, event)) = self.dispatch.answered(&id, outcome, now) else { continue };
            if verdict.status == Status::Sent {
                self.tally.confirmed(event.committed_at_us, now.unix_us);
            }
            if verdict.error.is_some() || self.config.reports_delivered {
                let (status, error) = (verdict.status, verdict.error.clone());
                self.report(Report::Answered { event, status, error });
            }
            self.settling.push(verdict, now.instant);
        }
    }
}
