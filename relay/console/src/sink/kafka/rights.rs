//! Checks of what the user may do.

use kafka_producer::{Inspector, TopicRights};
use outbox_service::error::chain;

use super::topics::{Topic, listed};
use crate::findings::Report;

/// Checks the rights on topics that the user may describe; without DESCRIBE a topic seems not to exist.
pub(super) fn of_topics(topics: &[Topic], report: &mut Report) {
    const CHECK: &str = "topic_rights";
    let without = |lacks: fn(&Topic) -> bool| {
        let lacking: Vec<String> =
            topics.iter().filter(|topic| lacks(topic)).map(|topic| topic.state.name.clone()).collect();
        (!lacking.is_empty()).then(|| listed(lacking.into_iter()))
    };
    if let Some(lacking) = without(|topic| is_known(topic, |rights| !rights.write)) {
        report.bad(CHECK, format!("the user has no right WRITE on {lacking}"), "give it to the user (kafka-acls)");
    } else if let Some(unknown) = without(|topic| topic.state.rights.is_none()) {
        report.unknown(CHECK, format!("the cluster does not say what the user may do with {unknown}"), "");
    } else if let Some(lacking) = without(|topic| is_known(topic, |rights| !rights.read)) {
        let to_do = "give it to the user: tail reads topics, and so does a relay that looks at what an earlier one has published";
        report.warning(CHECK, format!("the user has no right READ on {lacking}"), to_do);
    } else {
        report.ok(CHECK, "the user has DESCRIBE, WRITE and READ on each topic of the last day");
    }
}

fn is_known(topic: &Topic, rights: fn(TopicRights) -> bool) -> bool {
    topic.state.rights.is_some_and(rights)
}

/// Checks the right to write by the transactional id, under which the cluster keeps the relay's producer id.
pub(super) async fn of_transactional_id(name: Option<&str>, inspector: &mut Inspector, report: &mut Report) {
    const CHECK: &str = "transactional_id";
    let Some(name) = name else {
        return report.ok(CHECK, "the relay asks for none");
    };
    match inspector.may_write_as(name).await {
        Ok(true) => report.ok(CHECK, format!("the user has WRITE on {name:?}")),
        Ok(false) => {
            let found = format!(
                "the user has no right WRITE on the transactional id {name:?}: a relay that was replaced while it stood still can write once more"
            );
            report.warning(CHECK, found, "give it to the user (kafka-acls); no transaction is made");
        }
        Err(error) => report.unknown(CHECK, chain(&error), ""),
    }
}
