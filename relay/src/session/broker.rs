//! What the broker says, and what follows from it.

use std::time::Instant;

use tracing::{info, warn};

use super::{Session, link::News};
use crate::{
    config::Unroutable,
    dispatch::Outcome,
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
            if let Some(settlement) = self.dispatch.answered(&id, outcome) {
                self.log_attempt(&settlement);
                self.settling.push(settlement, now);
            }
        }
    }
}
