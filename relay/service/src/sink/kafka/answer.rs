//! What Kafka's confirms mean for the event.

use kafka_producer::{ConfirmKind, Reason};
use outbox_core::Outcome;
use uuid::Uuid;

use crate::sink::{Answer, Unroutable};

/// Every outcome with every reason. docs/metrics.md explains the reasons.
pub(super) const ALL: &[(&str, &str)] = &[
    ("delivered", "taken"),
    ("found", "read_back"),
    ("behind", "behind"),
    ("unavailable", "not_enough_replicas"),
    ("unavailable", "no_leader"),
    ("unavailable", "throttled"),
    ("unavailable", "policy"),
    ("unavailable", "not_read_back"),
    ("rejected", "no_topic"),
    ("retry", "no_topic"),
    ("rejected", "too_large"),
    ("rejected", "invalid"),
    ("rejected", "invalid_timestamp"),
    ("rejected", "invalid_topic"),
    ("rejected", "not_authorized"),
    ("rejected", "unwritable"),
];

/// The answer that a confirm is.
pub(super) fn read(id: Uuid, confirm: ConfirmKind, unroutable: Unroutable) -> Answer {
    let (outcome, reason) = match confirm {
        ConfirmKind::Taken => (Outcome::Delivered, "taken"),
        ConfirmKind::Behind => (Outcome::Behind, "behind"),
        ConfirmKind::Refused(Reason { code, text }) => (Outcome::Rejected(text), reason(code)),
        ConfirmKind::NoTopic(Reason { text, .. }) => (unroutable.outcome(text), "no_topic"),
        ConfirmKind::Unavailable(Reason { code, text }) => (Outcome::Unavailable(text), reason(code)),
    };
    Answer { id, outcome, reason }
}

/// The answer about an event that its topic has already.
pub(super) fn found(id: Uuid) -> Answer {
    Answer { id, outcome: Outcome::Found, reason: "read_back" }
}

/// The answer about an event whose topic cannot be read back now, for this reason. `is_behind`: an earlier event of its
/// key waits as well.
pub(super) fn unread(id: Uuid, is_behind: bool, why: &Reason) -> Answer {
    let reason = match why.code {
        _ if is_behind => "behind",
        5 | 19 => reason(why.code),
        _ => "not_read_back",
    };
    Answer { id, outcome: Outcome::Unread { is_behind, reason: why.text.clone() }, reason }
}

fn reason(code: i16) -> &'static str {
    match code {
        5 => "no_leader",
        10 | 18 => "too_large",
        17 => "invalid_topic",
        19 => "not_enough_replicas",
        29 => "not_authorized",
        32 => "invalid_timestamp",
        44 => "policy",
        89 => "throttled",
        0 => "unwritable",
        _ => "invalid",
    }
}
