//! What the broker says, and what follows from it.

use std::time::Instant;

use tracing::{Level, debug, enabled, info, warn};

use super::{Session, link::News};
use crate::{
    config::Unroutable,
    dispatch::{Outcome, Settlement},
    event::Event,
    publish::{Answer, Verdict},
};

impl Session<'_> {
    pub(super) fn broker_news(&mut self, news: News) {
        match news {
            News::Answers(answers) => self.take_answers(answers),
            News::Opened => info!(target: "relay", "connected to the broker again"),
            News::Blocked(reason) => warn!(target: "relay", reason, "the broker has blocked publishing"),
            News::Unblocked => info!(target: "relay", "the broker takes messages again"),
            News::Away(error) => {
                let unknown = self.dispatch.in_flight();
                self.dispatch.outage();
                warn!(target: "relay", %error, in_flight = unknown, "no connection to the broker; trying again");
            }
        }
    }

    fn take_answers(&mut self, answers: Vec<Answer>) {
        let now = Instant::now();
        for Answer { id, verdict } in answers {
            let outcome = match verdict {
                Verdict::Confirmed => Outcome::Delivered,
                Verdict::Nacked => Outcome::Retry("the broker refused the message (basic.nack)".to_owned()),
                Verdict::Refused { code, text } => Outcome::Rejected(format!("{code} {text}")),
                Verdict::Returned { code, text } if self.config.unroutable == Unroutable::Retry => {
                    Outcome::Retry(format!("{code} {text}"))
                }
                Verdict::Returned { code, text } => Outcome::Rejected(format!("{code} {text}")),
            };
            if let Some((settlement, event)) = self.dispatch.answered(&id, outcome) {
                log_attempt(&event, &settlement);
                self.settling.push(settlement, now);
            }
        }
    }
}

/// One line for each attempt. Bodies are never logged.
fn log_attempt(event: &Event, settlement: &Settlement) {
    if settlement.error.is_none() && !enabled!(target: "relay", Level::DEBUG) {
        return;
    }
    let key = event.aggregate_id.as_ref().map(|text| text.as_str());
    let correlation_id = event.correlation_id.as_ref().map(|text| text.as_str());
    let topic = event.topic.as_str();
    match &settlement.error {
        None => debug!(target: "relay", event = %event.id, key, correlation_id, topic, "sent"),
        Some(error) => {
            let status = settlement.status.as_str();
            warn!(target: "relay", event = %event.id, key, correlation_id, topic, status, error, "not delivered");
        }
    }
}
