//! Checks of the topics' settings: how safe a record is, which are refused, and for how long they are kept.

use std::{collections::BTreeMap, time::Duration};

use super::{
    lately::Unknown,
    topics::{Topic, listed},
};
use crate::{
    findings::Report,
    format::{exact, thousands},
};

/// The settings that are looked at.
pub(super) const SETTINGS: [&str; 7] =
    [MIN_IN_SYNC, MAX_BYTES, CLEANUP, RETENTION, "message.timestamp.type", TIME_AHEAD, TIME_BEHIND];

const MIN_IN_SYNC: &str = "min.insync.replicas";
const MAX_BYTES: &str = "max.message.bytes";
const CLEANUP: &str = "cleanup.policy";
const RETENTION: &str = "retention.ms";
const TIME_AHEAD: &str = "message.timestamp.after.max.ms";
const TIME_BEHIND: &str = "message.timestamp.before.max.ms";

/// Bytes of a batch with one record beside what the table has: its head, lengths, and the names of the relay's headers.
const OVERHEAD: i64 = 300;

/// The Kafka code for a user without the right to look at a topic's settings.
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;

const DAY: Duration = Duration::from_hours(24);

/// Checks whether a record survives the loss of a broker.
pub(super) fn replicas(topics: &[Topic], report: &mut Report) {
    const CHECK: &str = "replicas";
    let low = topics.iter().filter(|topic| {
        let in_sync = topic.number(MIN_IN_SYNC);
        topic.state.replicas < 2 || in_sync.is_some_and(|in_sync| in_sync < 2)
    });
    let low: Vec<String> = low
        .map(|topic| {
            let in_sync = topic.number(MIN_IN_SYNC).map_or("?".to_owned(), |number| number.to_string());
            format!("{} ({}/{in_sync})", topic.state.name, topic.state.replicas)
        })
        .collect();
    if !low.is_empty() {
        let found = format!(
            "the loss of one broker can lose events that are SENT; replicas and min.insync.replicas of {}",
            listed(low.into_iter())
        );
        let to_do = "have three replicas and min.insync.replicas = 2: Kafka answers before it has written to disk (kafka-reassign-partitions, kafka-configs)";
        report.warning(CHECK, found, to_do);
    } else if !unknown_settings(CHECK, topics, report) {
        report.ok(CHECK, "each topic has two replicas or more, and two of them have each event before it is SENT");
    }
}

/// Checks whether the largest event of each topic fits into it.
pub(super) fn sizes(topics: &[Topic], largest: Result<BTreeMap<String, i64>, Unknown>, report: &mut Report) {
    const CHECK: &str = "record_sizes";
    let largest = match largest {
        Ok(largest) => largest,
        Err((found, to_do)) => return report.unknown(CHECK, found, to_do),
    };
    let too_large = topics.iter().filter_map(|topic| {
        let (most, bytes) = (topic.number(MAX_BYTES)?, largest.get(&topic.state.name)? + OVERHEAD);
        let name = &topic.state.name;
        (bytes > most).then(|| format!("{name} ({} of {} bytes)", thousands(bytes), thousands(most)))
    });
    let too_large: Vec<String> = too_large.collect();
    if !too_large.is_empty() {
        let found = format!(
            "the largest event of the last day has more than max.message.bytes of {}",
            listed(too_large.into_iter())
        );
        let to_do = "raise it (kafka-configs), or have emit() refuse such events: SELECT outbox.limit_payloads('…')";
        report.bad(CHECK, found, to_do);
    } else if !unknown_settings(CHECK, topics, report) {
        report.ok(CHECK, "the largest events of the last day are smaller than max.message.bytes");
    }
}

/// Checks whether each topic keeps events for a while, and takes them without a key.
pub(super) fn retention(topics: &[Topic], report: &mut Report) {
    const CHECK: &str = "retention";
    let names = |topics: Vec<&Topic>| listed(topics.into_iter().map(|topic| topic.state.name.clone()));
    let has = |topic: &Topic, policy| {
        topic.setting(CLEANUP).is_some_and(|set| set.split(',').any(|one| one.trim() == policy))
    };
    let kept = |topic: &Topic| {
        let ms = topic.number(RETENTION).filter(|_| has(topic, "delete"))?;
        u64::try_from(ms).ok().map(Duration::from_millis) // -1: for ever
    };
    let refusing: Vec<&Topic> = topics.iter().filter(|topic| topic.keyless && has(topic, "compact")).collect();
    let short: Vec<&Topic> = topics.iter().filter(|topic| kept(topic).is_some_and(|kept| kept < DAY)).collect();
    if !refusing.is_empty() {
        let found = format!(
            "events without aggregate_id are refused (87 INVALID_RECORD), since cleanup.policy is compact, by {}",
            names(refusing)
        );
        report.bad(
            CHECK,
            found,
            "emit them with aggregate_type and aggregate_id, or set cleanup.policy = delete (kafka-configs)",
        );
    } else if !short.is_empty() {
        let found = format!("events are deleted after less than a day (retention.ms) from {}", names(short));
        report.warning(
            CHECK,
            found,
            "see that no consumer is ever away for so long, or keep them longer (kafka-configs)",
        );
    } else if !unknown_settings(CHECK, topics, report) {
        let least = topics.iter().filter_map(kept).min();
        let kept = least.map_or("for ever".to_owned(), |least| format!("for {} or longer", exact(least)));
        report.ok(CHECK, format!("topics keep events {kept}"));
    }
}

/// Checks whether the clocks may differ so much that records are refused for their time, which is the relay's. Kafka
/// tells no client its own.
pub(super) fn times(topics: &[Topic], known: Result<(Duration, bool), Unknown>, report: &mut Report) {
    const CHECK: &str = "record_times";
    const TO_DO: &str = "let the relay's machine and the brokers keep time by NTP, and see message.timestamp.after.max.ms and message.timestamp.before.max.ms";
    let (differ, refused) = match known {
        Ok(known) => known,
        Err((found, to_do)) => return report.unknown(CHECK, found, to_do),
    };
    let limits = topics.iter().flat_map(|topic| {
        let by_broker = topic.setting("message.timestamp.type") == Some("LogAppendTime");
        [TIME_AHEAD, TIME_BEHIND].map(|limit| topic.number(limit).filter(|_| !by_broker))
    });
    let least = limits.flatten().filter_map(|ms| u64::try_from(ms).ok()).map(Duration::from_millis).min();
    if refused {
        report.warning(
            CHECK,
            "the broker has refused events of the last day for their time (32 INVALID_TIMESTAMP)",
            TO_DO,
        );
    } else if let Some(least) = least.filter(|least| differ > *least / 2) {
        let found = format!(
            "this machine's clock and the database's differ by {}, and records that are more than {} off the broker's are refused",
            exact(Duration::from_secs(differ.as_secs())),
            exact(least)
        );
        report.warning(CHECK, found, TO_DO);
    } else if !unknown_settings(CHECK, topics, report) {
        let least = least.filter(|least| *least < 365 * DAY);
        report.ok(
            CHECK,
            match least {
                Some(least) => {
                    format!("records may be {} off the broker's clock, which no client is told", exact(least))
                }
                None => "records may have any time".to_owned(),
            },
        );
    }
}

/// Reports that settings are not known, if those of a topic are not.
fn unknown_settings(check: &'static str, topics: &[Topic], report: &mut Report) -> bool {
    let unknown = topics.iter().filter_map(|topic| Some((&topic.state.name, topic.settings.as_ref().err()?)));
    let unknown: Vec<_> = unknown.collect();
    let Some((_, why)) = unknown.first() else { return false };
    let to_do = if why.code == TOPIC_AUTHORIZATION_FAILED {
        "give the user the right DESCRIBE_CONFIGS on them (kafka-acls), or look yourself (kafka-configs --describe)"
    } else {
        "look yourself (kafka-configs --describe)"
    };
    let names = listed(unknown.iter().map(|(name, _)| (*name).clone()));
    report.unknown(check, format!("the settings are not known ({}) of {names}", why.text), to_do);
    true
}

impl Topic {
    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.as_ref().ok()?.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.setting(name)?.parse().ok()
    }
}
