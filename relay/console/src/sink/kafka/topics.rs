//! Checks of the topics of the last day's events: whether they exist, have leaders, and may be written.

use std::collections::BTreeMap;

use kafka_producer::{Inspector, TopicState};
use outbox_service::{Config, error::chain, sink::kafka};
use tokio_postgres::Client;

use super::{
    check::connect,
    lately, rights,
    settings::{self, SETTINGS},
    topic::{Topic, listed},
};
use crate::{findings::Report, format::count};

const CHECK: &str = "topics";

/// The checks that need an event of the last day.
const CHECKS: [&str; 6] = [CHECK, "topic_rights", "replicas", "record_sizes", "retention", "record_times"];

pub(super) async fn inspect(config: &Config, client: &Client, report: &mut Report) {
    let Some(kafka) = kafka::settings(config) else { return };
    let Ok(mut inspector) = connect(config, kafka).await else { return }; // another check reports it
    rights::of_transactional_id(config, client, &mut inspector, report).await;
    let topics = match lately::topics(client, &kafka.topic).await {
        Ok(topics) => topics,
        Err((found, to_do)) => return unknown(&found, to_do, report),
    };
    if topics.is_empty() {
        return CHECKS.iter().for_each(|check| report.unknown(check, "there was no event in the last day", ""));
    }
    let names: Vec<String> = topics.keys().cloned().collect();
    let states = match inspector.topics(&names).await {
        Ok(states) => states,
        Err(error) => return unknown(&chain(&error), "", report),
    };
    exist(&states, report);
    let known = described(&mut inspector, states, &topics).await;
    if !known.is_empty() {
        rights::of_topics(&known, report);
        settings::replicas(&known, report);
        settings::sizes(&known, lately::largest(client, &kafka.topic).await, report);
        settings::retention(&known, report);
        settings::times(&known, lately::clocks_differ(client).await, report);
    }
}

/// Reports that nothing is known of the topics.
fn unknown(why: &str, to_do: &str, report: &mut Report) {
    report.unknown(CHECK, why, to_do);
    CHECKS[1..].iter().for_each(|check| report.unknown(check, format!("not looked at: see {CHECK}"), ""));
}

/// The topics that exist, with their settings.
async fn described(inspector: &mut Inspector, states: Vec<TopicState>, keyless: &BTreeMap<String, bool>) -> Vec<Topic> {
    let states: Vec<TopicState> = states.into_iter().filter(|topic| topic.error.is_none()).collect();
    let names: Vec<String> = states.iter().map(|topic| topic.name.clone()).collect();
    let (mut known, why) = match inspector.settings(&names, &SETTINGS).await {
        Ok(settings) => (settings.into_iter().collect::<BTreeMap<_, _>>(), "the broker has left it out".to_owned()),
        Err(error) => (BTreeMap::new(), chain(&error)),
    };
    let topic = |state: TopicState| {
        let unknown = || Err(kafka_producer::Reason { code: 0, text: why.clone() });
        let settings = known.remove(&state.name).unwrap_or_else(unknown);
        let keyless = keyless.get(&state.name).copied().unwrap_or_default();
        Topic { state, settings, keyless }
    };
    states.into_iter().map(topic).collect()
}

fn exist(topics: &[TopicState], report: &mut Report) {
    let unusable: Vec<&TopicState> = topics.iter().filter(|topic| topic.error.is_some()).collect();
    let leaderless: Vec<&TopicState> = topics.iter().filter(|topic| topic.leaderless > 0).collect();
    let names = |wrong: &[&TopicState]| listed(wrong.iter().map(|topic| topic.name.clone()));
    if let Some(why) = unusable.first().and_then(|topic| topic.error.as_ref()) {
        let to_do = "create them, or give the user the rights DESCRIBE and WRITE; then replay what has FAILED: outbox-relay replay --topic … --dry-run";
        report.bad(CHECK, format!("{} cannot be used ({})", names(&unusable), why.text), to_do);
    } else if !leaderless.is_empty() {
        let found = format!("partitions without a leader in {}", names(&leaderless));
        report.bad(CHECK, found, "look for brokers that are away");
    } else {
        let number = count(i64::try_from(topics.len()).unwrap_or(i64::MAX), "topic");
        report.ok(CHECK, format!("{number} of the last day: each exists, and its partitions have leaders"));
    }
}
