//! The summary: do events flow? It is made from what the relay knows of itself and what the database reports. Pure.

use std::time::SystemTime;

use client_socket::Expiry;
use outbox_service::{
    numbers,
    observe::{Readiness, View},
    peer::EXPIRES_SOON,
    time::age,
};

use crate::queries::health::Health;

/// How good or bad the summary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Events flow.
    Ok,
    /// Events flow, but something needs attention.
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

/// Returns a sentence about the certificates of the relay's connections that expire soon, if any do.
pub(super) fn expiring(view: &View, now: SystemTime) -> Option<String> {
    let both = [("PostgreSQL", &view.database), (view.broker.name, &view.sink.connected_to)];
    let summary = both.into_iter().filter_map(|(server, peer)| first_to_expire(peer.as_ref()?.expiry, server, now));
    let summary: Vec<String> = summary.collect();
    (!summary.is_empty()).then(|| summary.join(", and "))
}

/// Returns a sentence about the certificate of a connection that expires first, if it expires soon.
fn first_to_expire(expiry: Expiry, server: &str, now: SystemTime) -> Option<String> {
    let (until, whose) = match (expiry.server, expiry.client) {
        (Some(theirs), Some(own)) if own < theirs => (own, format!("the relay's certificate for {server}")),
        (None, Some(own)) => (own, format!("the relay's certificate for {server}")),
        (Some(theirs), _) => (theirs, format!("{server}'s certificate")),
        (None, None) => return None,
    };
    match until.duration_since(now) {
        Ok(left) if left > EXPIRES_SOON => None,
        Ok(left) => Some(format!("{whose} expires in {}", age(left))),
        Err(past) => Some(format!("{whose} expired {} ago", age(past.duration()))),
    }
}

/// Says as well that the page cannot read the database, if all is well as far as the relay knows.
pub(super) fn without_database((level, words): (Level, String)) -> (Level, String) {
    if level != Level::Ok {
        return (level, words);
    }
    (Level::Waiting, format!("{}, but this page cannot read the database.", words.trim_end_matches('.')))
}

/// Summarizes the state. `health` is the row of `outbox.health_with_codes()`, if the database could be queried;
/// `expiring` names the certificates that expire soon.
pub(super) fn summarize(readiness: &Readiness, health: Option<&Health>, expiring: Option<&str>) -> (Level, String) {
    let reason = health.and_then(|health| health.reason.as_deref());
    let flows = health.is_none_or(Health::flows);
    match readiness {
        Readiness::Delivering(_) => match (reason, expiring) {
            (Some(reason), _) if !flows => (Level::Wrong, format!("The relay is at work, but {reason}.")),
            (None, None) => (Level::Ok, "Events flow.".to_owned()),
            (Some(but), None) | (None, Some(but)) => (Level::Waiting, format!("Events flow, but {but}.")),
            (Some(reason), Some(expiring)) => (Level::Waiting, format!("Events flow, but {reason}, and {expiring}.")),
        },
        Readiness::Waiting(_) => match (reason, health) {
            (None, None) => (Level::Ok, "Another relay is at work; this one is its standby.".to_owned()),
            (None, Some(_)) => {
                (Level::Ok, "Events flow: another relay is at work, and this one is its standby.".to_owned())
            }
            (Some(reason), _) if !flows => (Level::Wrong, format!("Another relay is at work, but {reason}.")),
            (Some(but), _) => (Level::Waiting, format!("Events flow, but {but}.")),
        },
        Readiness::Not(sentence) => {
            let mut summary = capital(sentence);
            if let Some(waiting) = health.map(waiting) {
                summary.push_str(&format!("; {waiting} wait"));
            }
            if let Some(kept) = health.and_then(|health| health.slot.kept_bytes) {
                summary.push_str(&format!("; the slot keeps {} of WAL", numbers::bytes(kept)));
            }
            summary.push('.');
            (Level::Wrong, summary)
        }
    }
}

/// Returns how many events wait: pending ones, and those that are retried.
fn waiting(health: &Health) -> String {
    let about = if health.pending_is_estimate { "about " } else { "" };
    format!("{about}{}", numbers::count(health.pending + health.retrying, "event"))
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::queries::health::Slot;

    #[test]
    fn of_two_certificates_the_one_that_expires_first_is_told_of_and_none_that_has_long() {
        let after = |days: u64| UNIX_EPOCH + Duration::from_hours(24 * days);
        for (server, client, summary) in [
            (None, None, None),
            (Some(122), Some(130), None),
            (Some(105), Some(130), Some("RabbitMQ's certificate expires in 5d")),
            (Some(105), Some(104), Some("the relay's certificate for RabbitMQ expires in 4d")),
            (None, Some(104), Some("the relay's certificate for RabbitMQ expires in 4d")),
            (Some(98), None, Some("RabbitMQ's certificate expired 2d ago")),
        ] {
            let expiry = Expiry { server: server.map(after), client: client.map(after) };
            assert_eq!(first_to_expire(expiry, "RabbitMQ", after(100)).as_deref(), summary);
        }
    }

    #[test]
    fn a_page_that_cannot_read_the_database_does_not_say_that_all_is_well() {
        let delivering = summarize(&Readiness::Delivering(String::new()), None, None);
        let words = "Events flow, but this page cannot read the database.".to_owned();
        assert_eq!(without_database(delivering), (Level::Waiting, words));
        let away = summarize(&Readiness::Not("the relay starts".to_owned()), None, None);
        assert_eq!(without_database(away.clone()), away);
    }

    #[test]
    fn the_answer_says_what_is_wrong_and_what_waits() {
        let delivering = Readiness::Delivering("delivering for 3m".to_owned());
        let away = Readiness::Not("no connection to RabbitMQ for 3m: refused".to_owned());
        let backlog = Readiness::Not("working off a backlog".to_owned());
        let standby = Readiness::Waiting("another relay is at work".to_owned());
        let slot = Slot { kept_bytes: Some(8 << 20), ..Slot::default() };
        let well = Health { pending: 12_418, slot, ..Health::default() };
        let wrong = |reason: &str, code: &str| {
            let (reason, codes) = (Some(reason.to_owned()), vec![code.to_owned()]);
            Health { reason, codes, ..Health::default() }
        };
        let failed = wrong("3 failed", "events_failed");
        let stuck = wrong("5 are stuck", "events_do_not_leave");
        let held = wrong("5 wait because events do not leave before another", "events_wait");
        for (readiness, health, level, summary) in [
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
            (&away, None, Level::Wrong, "No connection to RabbitMQ for 3m: refused."),
            (
                &away,
                Some(&well),
                Level::Wrong,
                "No connection to RabbitMQ for 3m: refused; 12,418 events wait; the slot keeps 8192 kB of WAL.",
            ),
            (
                &backlog,
                Some(&well),
                Level::Wrong,
                "Working off a backlog; 12,418 events wait; the slot keeps 8192 kB of WAL.",
            ),
            (&standby, Some(&well), Level::Ok, "Events flow: another relay is at work, and this one is its standby."),
            (&standby, Some(&failed), Level::Waiting, "Events flow, but 3 failed."),
            (&standby, Some(&stuck), Level::Wrong, "Another relay is at work, but 5 are stuck."),
        ] {
            assert_eq!(summarize(readiness, health, None), (level, summary.to_owned()));
        }
        let expiring = "RabbitMQ's certificate expires in 5d";
        for (readiness, health, summary) in [
            (&delivering, &well, "Events flow, but RabbitMQ's certificate expires in 5d."),
            (&delivering, &failed, "Events flow, but 3 failed, and RabbitMQ's certificate expires in 5d."),
        ] {
            assert_eq!(summarize(readiness, Some(health), Some(expiring)), (Level::Waiting, summary.to_owned()));
        }
    }
}
