//! Do events flow? The answer in words, from what the relay knows of itself and what the database says. Pure.

use std::time::SystemTime;

use client_socket::Expiry;
use outbox_service::{
    contact::EXPIRES_SOON,
    numbers,
    observe::{Readiness, View},
};
use serde_json::Value;

use crate::flow::flow;

/// How good the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Events flow.
    Ok,
    /// Events flow, and somebody should look at something.
    Waiting,
    /// Events do not flow.
    Wrong,
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Waiting => "waiting",
            Self::Wrong => "wrong",
        }
    }
}

/// Says which certificates of the relay's connections expire soon, if any does.
pub(super) fn expiring(view: &View, now: SystemTime) -> Option<String> {
    let both = [("PostgreSQL", &view.database), ("RabbitMQ", &view.sink.connected_to)];
    let told = both.into_iter().filter_map(|(server, contact)| first_to_expire(contact.as_ref()?.expiry, server, now));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join(", and "))
}

/// Says of the certificate of a connection that expires first that it does so soon, if it does.
fn first_to_expire(expiry: Expiry, server: &str, now: SystemTime) -> Option<String> {
    let (until, whose) = match (expiry.server, expiry.client) {
        (Some(theirs), Some(own)) if own < theirs => (own, format!("the relay's certificate for {server}")),
        (None, Some(own)) => (own, format!("the relay's certificate for {server}")),
        (Some(theirs), _) => (theirs, format!("{server}'s certificate")),
        (None, None) => return None,
    };
    match until.duration_since(now) {
        Ok(left) if left > EXPIRES_SOON => None,
        Ok(left) => Some(format!("{whose} expires in {}", numbers::time(left))),
        Err(past) => Some(format!("{whose} expired {} ago", numbers::time(past.duration()))),
    }
}

/// The answer. `health` is the row of `outbox.health_with_codes()`, if the database could be asked; `expiring` says which certificates expire soon.
pub(super) fn answer(readiness: &Readiness, health: Option<&Value>, expiring: Option<&str>) -> (Level, String) {
    let reason = health.and_then(|health| health["reason"].as_str());
    let codes = health.and_then(|health| health["codes"].as_array());
    let flows = flow(codes.into_iter().flatten().filter_map(Value::as_str));
    match readiness {
        Readiness::Delivering(_) => match (reason, expiring) {
            (Some(reason), _) if !flows => (Level::Wrong, format!("The relay is at work, but {reason}.")),
            (None, None) => (Level::Ok, "Events flow.".to_owned()),
            (Some(but), None) | (None, Some(but)) => (Level::Waiting, format!("Events flow, but {but}.")),
            (Some(reason), Some(expiring)) => (Level::Waiting, format!("Events flow, but {reason}, and {expiring}.")),
        },
        Readiness::Waiting(_) => match (reason, health) {
            (None, None) => (Level::Ok, "Another relay is at work; this one waits for its turn.".to_owned()),
            (None, Some(_)) => {
                (Level::Ok, "Events flow: another relay is at work, and this one waits for its turn.".to_owned())
            }
            (Some(reason), _) if !flows => (Level::Wrong, format!("Another relay is at work, but {reason}.")),
            (Some(but), _) => (Level::Waiting, format!("Events flow, but {but}.")),
        },
        Readiness::Not(sentence) => {
            let mut words = capital(sentence);
            if let Some(waiting) = health.and_then(waiting) {
                words.push_str(&format!("; {waiting} wait"));
            }
            if let Some(kept) = health.and_then(|health| health["slot_kept_bytes"].as_i64()) {
                words.push_str(&format!("; the slot keeps {} of WAL", numbers::bytes(kept)));
            }
            words.push('.');
            (Level::Wrong, words)
        }
    }
}

/// How many events wait: those that are owed, and those that are tried again.
fn waiting(health: &Value) -> Option<String> {
    let count = health["pending"].as_i64()? + health["retrying"].as_i64()?;
    let about = if health["pending_is_estimate"] == true { "about " } else { "" };
    Some(format!("{about}{}", numbers::count(count, "event")))
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::json;

    use super::*;

    #[test]
    fn of_two_certificates_the_one_that_expires_first_is_told_of_and_none_that_has_long() {
        let after = |days: u64| UNIX_EPOCH + Duration::from_secs(days * 86_400);
        for (server, client, told) in [
            (None, None, None),
            (Some(122), Some(130), None),
            (Some(105), Some(130), Some("RabbitMQ's certificate expires in 5 d 0 h")),
            (Some(105), Some(104), Some("the relay's certificate for RabbitMQ expires in 4 d 0 h")),
            (None, Some(104), Some("the relay's certificate for RabbitMQ expires in 4 d 0 h")),
            (Some(98), None, Some("RabbitMQ's certificate expired 2 d 0 h ago")),
        ] {
            let expiry = Expiry { server: server.map(after), client: client.map(after) };
            assert_eq!(first_to_expire(expiry, "RabbitMQ", after(100)).as_deref(), told);
        }
    }

    #[test]
    fn the_answer_says_what_is_wrong_and_what_waits() {
        let delivering = Readiness::Delivering("delivering for 3 min 0 s".to_owned());
        let away = Readiness::Not("no connection to RabbitMQ for 3 min 0 s: refused".to_owned());
        let backlog = Readiness::Not("working off a backlog".to_owned());
        let standby = Readiness::Waiting("another relay is at work".to_owned());
        let well = json!({ "reason": null, "pending": 12_418, "retrying": 0, "slot_kept_bytes": 8 << 20 });
        let failed = json!({ "reason": "3 failed", "codes": ["events_failed"] });
        let stuck = json!({ "reason": "5 are stuck", "codes": ["events_do_not_leave"] });
        let held = json!({ "reason": "5 wait because events do not leave before another", "codes": ["events_wait"] });
        for (readiness, health, level, words) in [
            (&delivering, None, Level::Ok, "Events flow."),
            (&delivering, Some(&well), Level::Ok, "Events flow."),
            (&delivering, Some(&failed), Level::Waiting, "Events flow, but 3 failed."),
            (
                &delivering,
                Some(&held),
                Level::Waiting,
                "Events flow, but 5 wait because events do not leave before another.",
            ),
            (&delivering, Some(&stuck), Level::Wrong, "The relay is at work, but 5 are stuck."),
            (&away, None, Level::Wrong, "No connection to RabbitMQ for 3 min 0 s: refused."),
            (
                &away,
                Some(&well),
                Level::Wrong,
                "No connection to RabbitMQ for 3 min 0 s: refused; 12,418 events wait; the slot keeps 8192 kB of WAL.",
            ),
            (
                &backlog,
                Some(&well),
                Level::Wrong,
                "Working off a backlog; 12,418 events wait; the slot keeps 8192 kB of WAL.",
            ),
            (
                &standby,
                Some(&well),
                Level::Ok,
                "Events flow: another relay is at work, and this one waits for its turn.",
            ),
            (&standby, Some(&failed), Level::Waiting, "Events flow, but 3 failed."),
            (&standby, Some(&stuck), Level::Wrong, "Another relay is at work, but 5 are stuck."),
        ] {
            assert_eq!(answer(readiness, health, None), (level, words.to_owned()));
        }
        let expiring = "RabbitMQ's certificate expires in 5 d 0 h";
        for (readiness, health, words) in [
            (&delivering, &well, "Events flow, but RabbitMQ's certificate expires in 5 d 0 h."),
            (&delivering, &failed, "Events flow, but 3 failed, and RabbitMQ's certificate expires in 5 d 0 h."),
        ] {
            assert_eq!(answer(readiness, Some(health), Some(expiring)), (Level::Waiting, words.to_owned()));
        }
    }
}
