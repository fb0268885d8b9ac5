//! What RabbitMQ's confirms mean for the event.

use amqp_publisher::ConfirmKind;
use outbox_core::Outcome;
use uuid::Uuid;

use crate::sink::{Answer, Unroutable};

/// The reason recorded for an event that a queue did not take.
pub const NACKED: &str = "the broker did not take the message (basic.nack)";

/// Every outcome with every reason. docs/metrics.md explains the reasons.
pub(super) const ALL: &[(&str, &str)] = &[
    ("delivered", "acked"),
    ("unavailable", "nacked"),
    ("rejected", "returned"),
    ("retry", "returned"),
    ("rejected", "no_exchange"),
    ("rejected", "access_refused"),
    ("rejected", "precondition_failed"),
    ("rejected", "headers_too_large"),
    ("rejected", "invalid"),
    ("rejected", "closed"),
];

/// The answer that a confirm is.
pub(super) fn read(id: Uuid, confirm: ConfirmKind, unroutable: Unroutable) -> Answer {
    let (outcome, reason) = match confirm {
        ConfirmKind::Acked => (Outcome::Delivered, "acked"),
        ConfirmKind::Nacked => (Outcome::Unavailable(NACKED.to_owned()), "nacked"),
        ConfirmKind::Returned { code, text } => (unroutable.outcome(format!("{code} {text}")), "returned"),
        ConfirmKind::Closed { code, text } => (Outcome::Rejected(format!("{code} {text}")), reason(code)),
    };
    Answer { id, outcome, reason }
}

/// The name of AMQP's reply code with which RabbitMQ, or the publisher in its place, rejects a message.
fn reason(code: u16) -> &'static str {
    match code {
        311 => "headers_too_large",
        403 => "access_refused",
        404 => "no_exchange",
        406 => "precondition_failed",
        502 => "invalid",
        _ => "closed",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::sink::Answers;

    #[test]
    fn every_confirm_has_an_outcome_and_a_reason_of_the_list_and_the_list_has_no_other() {
        let closed = (300..600).map(|code| ConfirmKind::Closed { code, text: String::new() });
        let returned = ConfirmKind::Returned { code: 312, text: "NO_ROUTE".to_owned() };
        let confirms: Vec<_> = closed.chain([ConfirmKind::Acked, ConfirmKind::Nacked, returned]).collect();
        let mut answers = Answers::default();
        for unroutable in [Unroutable::Fail, Unroutable::Retry] {
            answers.count(confirms.iter().map(|kind| read(Uuid::nil(), kind.clone(), unroutable)).collect());
        }
        let seen: HashSet<_> = answers.table().iter().map(|([outcome, reason], _)| (*outcome, *reason)).collect();
        assert_eq!(seen, ALL.iter().copied().collect());
    }
}
