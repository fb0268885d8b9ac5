//! Check whether the topics of the last day's events exist, and have leaders.

use std::collections::BTreeSet;

use kafka_producer::TopicState;
use outbox_service::{Config, error::chain, sink::kafka};
use tokio_postgres::{Client, error::SqlState};

use super::check::connect;
use crate::{
    findings::Report,
    format::{count, escaped},
    queries::session::took_too_long,
};

/// Most events of the last day that are read: about a second's work.
const MOST: i64 = 200_000;
/// Most topics that are named.
const NAMED: usize = 5;

const CHECK: &str = "topics";

/// What names the topics of the last day's events. Ids that the outbox has made are found by the time in them.
const DESTINATIONS: &str = "SELECT DISTINCT exchange, topic, aggregate_type, event_type FROM (
        SELECT exchange, topic, aggregate_type, event_type FROM outbox.events
        WHERE created_at > now() - interval '1 day'
          AND id > (lpad(to_hex((extract(epoch FROM now() - interval '1 day') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
        ORDER BY id DESC LIMIT $1) AS lately LIMIT 10000";

pub(super) async fn inspect(config: &Config, client: &Client, report: &mut Report) {
    let Some(kafka) = kafka::settings(config) else { return };
    let rows = match client.query(DESTINATIONS, &[&MOST]).await {
        Ok(rows) => rows,
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            let to_do = "check as a role with outbox.grant_operate too, or: SELECT outbox.grant_operate('<role>')";
            return report.unknown(CHECK, "this role may not read events, so topics cannot be looked at", to_do);
        }
        Err(error) if took_too_long(&error) => {
            let found = "there are too many events to look at in time";
            return report.unknown(CHECK, found, "allow more by --timeout");
        }
        // The extension is missing or broken, which another check reports.
        Err(error) => return report.unknown(CHECK, chain(&error), ""),
    };
    let mut names = BTreeSet::new();
    for row in &rows {
        let text = |column| row.try_get::<_, Option<String>>(column).ok().flatten();
        let (exchange, aggregate_type, kind) = (text("exchange"), text("aggregate_type"), text("event_type"));
        let topic = text("topic").unwrap_or_default();
        let name = kafka.topic.name(exchange.as_deref(), &topic, aggregate_type.as_deref(), kind.as_deref());
        names.insert(name.into_owned());
    }
    if names.is_empty() {
        return report.unknown(CHECK, "there was no event in the last day", "");
    }
    let Ok(mut reader) = connect(config, kafka).await else { return }; // another check reports it
    let names: Vec<String> = names.into_iter().collect();
    match reader.topics(&names).await {
        Ok(topics) => judge(&topics, report),
        Err(error) => report.unknown(CHECK, chain(&error), ""),
    }
}

fn judge(topics: &[TopicState], report: &mut Report) {
    let listed = |wrong: &[&TopicState]| {
        let more = if wrong.len() > NAMED { ", …" } else { "" };
        let names: Vec<String> = wrong.iter().take(NAMED).map(|topic| escaped(&topic.name)).collect();
        format!("{}: {}{more}", count(i64::try_from(wrong.len()).unwrap_or(i64::MAX), "topic"), names.join(", "))
    };
    let unusable: Vec<&TopicState> = topics.iter().filter(|topic| topic.error.is_some()).collect();
    let leaderless: Vec<&TopicState> = topics.iter().filter(|topic| topic.leaderless > 0).collect();
    if let Some(why) = unusable.first().and_then(|topic| topic.error.as_ref()) {
        let to_do = "create them, or give the user the rights DESCRIBE and WRITE; then replay what has FAILED: outbox-relay replay --topic … --dry-run";
        report.bad(CHECK, format!("{} cannot be used ({why})", listed(&unusable)), to_do);
    } else if !leaderless.is_empty() {
        let found = format!("partitions without a leader in {}", listed(&leaderless));
        report.bad(CHECK, found, "look for brokers that are away");
    } else {
        let number = count(i64::try_from(topics.len()).unwrap_or(i64::MAX), "topic");
        report.ok(CHECK, format!("{number} of the last day: each exists, and its partitions have leaders"));
    }
}
