//! What the broker says, and what follows from it.

use std::time::Instant;

use amqp_publisher::{Answer, PublishError, Verdict};
use tracing::{Level, debug, enabled, info, warn};

use super::{
    Session,
    link::News,
    unsent::{About, Sum, Unsent},
};
use crate::{
    config::Unroutable,
    dispatch::{Now, Outcome, Settlement, Status},
    event::Event,
    repeats::Repeats,
    sink::rabbitmq::explain as chain,
};

const NACKED: &str = "the broker refused the message (basic.nack)";

/// What the log has told about the broker.
#[derive(Default)]
pub(super) struct Told {
    unsent: Unsent,
    away: Repeats,
    /// That it refuses everything.
    refusing: bool,
}

impl Session<'_> {
    pub(super) fn broker_news(&mut self, news: News) {
        match news {
            News::Answers(answers) => self.take_answers(answers),
            News::Opened { away } => {
                self.told.away = Repeats::default();
                info!(target: "relay", ?away, "connected to the broker again");
            }
            News::Blocked(reason) => warn!(target: "relay", reason, "the broker has blocked publishing"),
            News::Unblocked => info!(target: "relay", "the broker takes messages again"),
            News::Away { error, since } => {
                let unknown = self.dispatch.in_flight();
                self.dispatch.outage();
                self.told.away(&error, since, unknown);
            }
        }
    }

    fn take_answers(&mut self, answers: Vec<Answer>) {
        let now = Now::read();
        for Answer { id, verdict } in answers {
            let outcome = match verdict {
                Verdict::Confirmed => Outcome::Delivered,
                Verdict::Nacked => Outcome::Nacked(NACKED.to_owned()),
                Verdict::Refused { code, text } => Outcome::Rejected(format!("{code} {text}")),
                Verdict::Returned { code, text } if self.config.unroutable == Unroutable::Retry => {
                    Outcome::Retry(format!("{code} {text}"))
                }
                Verdict::Returned { code, text } => Outcome::Rejected(format!("{code} {text}")),
            };
            if let Some((settlement, event)) = self.dispatch.answered(&id, outcome, now) {
                self.told.attempt(&event, &settlement, now.instant);
                self.settling.push(settlement, now.instant);
            }
        }
    }

    /// While the broker refuses everything, the slot moves on: what is in memory stands in the table, too.
    pub(super) fn bear_refusal(&mut self, now: Instant) {
        let Some(since) = self.dispatch.refusing_since() else {
            if std::mem::take(&mut self.told.refusing) {
                info!(target: "relay", state = %"streaming", "the broker takes messages again");
            }
            return;
        };
        if now.duration_since(since) < self.config.park_after {
            return;
        }
        if !self.told.refusing {
            self.told.refusing = true;
            let routes = self.dispatch.refused_routes();
            warn!(target: "relay", state = %"refused", for = ?now.duration_since(since), routes, reason = NACKED,
                  "the broker refuses everything: events wait, no attempt is counted, a few are tried now and then; \
                   look for full queues, and queues without a majority");
        }
        if self.resync.is_live() {
            self.progress.abandon();
        }
    }

    /// Tells what was summed up, when it is time.
    pub(super) fn tell_sums(&mut self, now: Instant) {
        if self.told.sums_at().is_some_and(|at| at <= now) {
            self.told.sums();
        }
    }
}

impl Told {
    fn away(&mut self, error: &PublishError, since: Instant, in_flight: usize) {
        let error = chain(error);
        let (is_told, tries) = self.away.count(&error);
        let lasted = since.elapsed();
        if is_told {
            warn!(target: "relay", error, tries, for = ?lasted, in_flight, "no connection to the broker; trying again");
        } else {
            debug!(target: "relay", error, tries, for = ?lasted, "no connection to the broker; trying again");
        }
    }

    /// Bodies are never logged.
    fn attempt(&mut self, event: &Event, settlement: &Settlement, now: Instant) {
        if settlement.error.is_none() && !enabled!(target: "relay", Level::DEBUG) {
            return;
        }
        let key = event.aggregate_id.as_ref().map(|text| text.as_str());
        let correlation_id = event.correlation_id.as_ref().map(|text| text.as_str());
        let topic = event.topic.as_str();
        let status = settlement.status.as_str();
        match &settlement.error {
            None if settlement.status == Status::Pending => {
                debug!(target: "relay", event = %event.id, key, correlation_id, topic, status, "refused: no attempt is counted");
            }
            None => debug!(target: "relay", event = %event.id, key, correlation_id, topic, "sent"),
            Some(error) => {
                // Without how often and how long, in which no two are alike.
                let reason = if error.starts_with(NACKED) { NACKED } else { error };
                let about = About { topic: topic.to_owned(), status, error: reason.to_owned() };
                if self.unsent.note(about, now) {
                    warn!(target: "relay", event = %event.id, key, correlation_id, topic, status, error, "not delivered");
                } else {
                    debug!(target: "relay", event = %event.id, key, correlation_id, topic, status, error, "not delivered");
                }
            }
        }
    }

    pub(super) fn sums_at(&self) -> Option<Instant> {
        self.unsent.due()
    }

    fn sums(&mut self) {
        for Sum { about, count } in self.unsent.take() {
            match about {
                Some(About { topic, status, error }) => {
                    warn!(target: "relay", topic, status, error, count, "not delivered: so many more");
                }
                None => warn!(target: "relay", count, "not delivered: so many of other topics"),
            }
        }
    }
}

/// However the session ends.
impl Drop for Told {
    fn drop(&mut self) {
        self.sums();
    }
}
