//! Do events flow? The answer in words, from what the relay knows of itself and what the database says. Pure.

use serde_json::Value;

use crate::observe::Readiness;

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

/// The answer. `health` is the row of `outbox.health()`, if the database could be asked.
pub(super) fn answer(readiness: &Readiness, health: Option<&Value>) -> (Level, String) {
    let reason = health.and_then(|health| health["reason"].as_str());
    let leaves_nothing = reason.is_some_and(|reason| reason.contains("events do not leave"));
    match readiness {
        Readiness::Delivering(_) => match reason {
            None => (Level::Ok, "Events flow.".to_owned()),
            Some(reason) if leaves_nothing => (Level::Wrong, format!("The relay is at work, but {reason}.")),
            Some(reason) => (Level::Waiting, format!("Events flow, but {reason}.")),
        },
        Readiness::Waiting(_) => match (reason, health) {
            (None, None) => (Level::Ok, "Another relay is at work; this one waits for its turn.".to_owned()),
            (None, Some(_)) => {
                (Level::Ok, "Events flow: another relay is at work, and this one waits for its turn.".to_owned())
            }
            (Some(reason), _) => (Level::Wrong, format!("Another relay is at work, but {reason}.")),
        },
        Readiness::Not(sentence) => {
            let mut words = capital(sentence);
            if let Some(waiting) = health.and_then(waiting) {
                words = match words.contains("events wait safely") {
                    true => words.replacen("events wait safely", &format!("{waiting} wait safely"), 1),
                    false => format!("{words}; {waiting} wait"),
                };
            }
            if let Some(kept) = health.and_then(|health| health["slot_kept_bytes"].as_u64()) {
                words.push_str(&format!("; the slot keeps {} of log", size(kept)));
            }
            words.push('.');
            (Level::Wrong, words)
        }
    }
}

/// How many events wait: those that are owed, and those that are tried again.
fn waiting(health: &Value) -> Option<String> {
    let count = health["pending"].as_u64()? + health["retrying"].as_u64()?;
    let about = if health["pending_is_estimate"] == true { "about " } else { "" };
    let noun = if count == 1 { "event" } else { "events" };
    Some(format!("{about}{} {noun}", grouped(count)))
}

/// With commas between thousands.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let parts = digits.as_bytes().rchunks(3).rev().map(|part| String::from_utf8_lossy(part).into_owned());
    parts.collect::<Vec<_>>().join(",")
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..10_737_418_240 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_says_what_is_wrong_and_what_waits() {
        let delivering = Readiness::Delivering("delivering for 3 min 0 s".to_owned());
        let away = Readiness::Not("RabbitMQ is unreachable for 3 min 0 s: refused; events wait safely".to_owned());
        let backlog = Readiness::Not("working off a backlog".to_owned());
        let standby = Readiness::Waiting("another relay is at work".to_owned());
        let well = json!({ "reason": null, "pending": 12_418, "retrying": 0, "slot_kept_bytes": 8 << 20 });
        let failed = json!({ "reason": "3 failed" });
        let stuck = json!({ "reason": "events do not leave: 5 pending, the oldest for 00:05:00" });
        for (readiness, health, level, words) in [
            (&delivering, None, Level::Ok, "Events flow."),
            (&delivering, Some(&well), Level::Ok, "Events flow."),
            (&delivering, Some(&failed), Level::Waiting, "Events flow, but 3 failed."),
            (
                &delivering,
                Some(&stuck),
                Level::Wrong,
                "The relay is at work, but events do not leave: 5 pending, the oldest for 00:05:00.",
            ),
            (&away, None, Level::Wrong, "RabbitMQ is unreachable for 3 min 0 s: refused; events wait safely."),
            (
                &away,
                Some(&well),
                Level::Wrong,
                "RabbitMQ is unreachable for 3 min 0 s: refused; 12,418 events wait safely; the slot keeps 8 MiB of log.",
            ),
            (
                &backlog,
                Some(&well),
                Level::Wrong,
                "Working off a backlog; 12,418 events wait; the slot keeps 8 MiB of log.",
            ),
            (
                &standby,
                Some(&well),
                Level::Ok,
                "Events flow: another relay is at work, and this one waits for its turn.",
            ),
            (
                &standby,
                Some(&stuck),
                Level::Wrong,
                "Another relay is at work, but events do not leave: 5 pending, the oldest for 00:05:00.",
            ),
        ] {
            assert_eq!(answer(readiness, health), (level, words.to_owned()));
        }
    }
}
