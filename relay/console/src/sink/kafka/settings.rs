//! Checks of the topics' settings: how safe a record is, which are refused, and for how long they are kept.

use std::{collections::BTreeMap, time::Duration};

use super::{
    lately::Unknown,
    topic::{Topic, listed},
};
use crate::{
    findings::Report,
    format::{age, exact, thousands},
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
/// tells no client its own, so the database's stands for it.
pub(super) fn times(topics: &[Topic], differ: Result<Duration, Unknown>, report: &mut Report) {
    const CHECK: &str = "record_times";
    let differ = match differ {
        Ok(differ) => differ,
        Err((found, to_do)) => return report.unknown(CHECK, found, to_do),
    };
    let limits = topics.iter().flat_map(|topic| {
        let by_broker = topic.setting("message.timestamp.type") == Some("LogAppendTime");
        [TIME_AHEAD, TIME_BEHIND].map(|limit| topic.number(limit).filter(|_| !by_broker))
    });
    let least = limits.flatten().filter_map(|ms| u64::try_from(ms).ok()).map(Duration::from_millis).min();
    if let Some(least) = least.filter(|least| differ > *least / 2) {
        let found = format!(
            "this machine's clock and the database's differ by {}, and records that are more than {} off the broker's are refused",
            age(differ),
            exact(least)
        );
        report.warning(CHECK, found, "let the relay's machine and the brokers keep time by NTP");
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use kafka_producer::{Reason, TopicState};

    use super::*;

    fn topic(replicas: usize, settings: &[(&str, &str)]) -> Topic {
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let state =
            TopicState { name: "orders".to_owned(), error: None, partitions: 3, leaderless: 0, replicas, rights: None };
        Topic { state, settings: Ok(settings.iter().map(text).collect::<HashMap<_, _>>()), keyless: false }
    }

    fn found(check: impl FnOnce(&mut Report)) -> String {
        let mut report = Report::default();
        check(&mut report);
        serde_json::to_value(&report).unwrap()["findings"][0].to_string()
    }

    #[test]
    fn clocks_may_differ_by_half_of_what_the_strictest_topic_allows() {
        let strict = topic(3, &[(TIME_AHEAD, "60000"), (TIME_BEHIND, "9223372036854775807")]);
        let topics = [strict, topic(3, &[(TIME_AHEAD, "3600000")])];
        let after = |seconds| found(|report| times(&topics, Ok(Duration::from_secs(seconds)), report));
        assert!(after(30).contains("\"ok\"") && after(30).contains("may be 1m off"), "{}", after(30));
        assert!(after(31).contains("\"warning\"") && after(31).contains("differ by 31s"), "{}", after(31));
        let by_broker = [topic(3, &[(TIME_AHEAD, "60000"), ("message.timestamp.type", "LogAppendTime")])];
        let any = found(|report| times(&by_broker, Ok(DAY), report));
        assert!(any.contains("\"ok\"") && any.contains("any time"), "{any}");
    }

    #[test]
    fn one_replica_is_a_warning_and_settings_that_are_not_known_are_never_ok() {
        let in_sync = [(MIN_IN_SYNC, "2")];
        assert!(found(|report| replicas(&[topic(2, &in_sync)], report)).contains("\"ok\""));
        assert!(found(|report| replicas(&[topic(1, &in_sync)], report)).contains("orders (1/2)"));
        assert!(found(|report| replicas(&[topic(3, &[(MIN_IN_SYNC, "1")])], report)).contains("orders (3/1)"));
        let unknown = Topic { settings: Err(Reason { code: 29, text: "29 NO".to_owned() }), ..topic(3, &[]) };
        let unknown = found(|report| replicas(&[unknown], report));
        assert!(unknown.contains("\"unknown\"") && unknown.contains("DESCRIBE_CONFIGS"), "{unknown}");
    }

    #[test]
    fn a_topic_that_deletes_within_a_day_is_a_warning_unless_it_only_compacts() {
        let of = |policy, ms| found(|report| retention(&[topic(3, &[(CLEANUP, policy), (RETENTION, ms)])], report));
        for (policy, ms, level) in [
            ("delete", "86399999", "warning"),
            ("compact,delete", "1000", "warning"),
            ("compact", "1000", "ok"),
            ("delete", "-1", "ok"),
            ("delete", "604800000", "ok"),
        ] {
            let found = of(policy, ms);
            assert!(found.contains(&format!("\"{level}\"")), "{policy} {ms}: {found}");
        }
    }
}
