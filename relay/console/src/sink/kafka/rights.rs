//! Checks of what the user may do.

use kafka_producer::{Inspector, TopicRights};
use outbox_service::{
    Config,
    error::chain,
    sink::{kafka, publisher_name},
};
use tokio_postgres::Client;

use super::topic::{Topic, listed};
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

/// The identifier of the cluster of databases, which is part of the transactional id.
const SYSTEM: &str = "SELECT system_identifier::pg_catalog.text AS system FROM pg_catalog.pg_control_system()";

/// Checks the right to write by the transactional id under which relays of this slot publish.
pub(super) async fn of_transactional_id(
    config: &Config,
    client: &Client,
    inspector: &mut Inspector,
    report: &mut Report,
) {
    const CHECK: &str = "transactional_id";
    if kafka::settings(config).is_none_or(|kafka| kafka.read_back.is_none()) {
        return report.ok(CHECK, "not needed, since nothing is read back");
    }
    let system = client.query_one(SYSTEM, &[]).await.and_then(|row| row.try_get::<_, String>("system"));
    let name = match system {
        Ok(system) => publisher_name(&system, &config.slot),
        Err(error) => return report.unknown(CHECK, chain(&error), "GRANT EXECUTE ON FUNCTION pg_control_system()"),
    };
    match inspector.may_write_as(&name).await {
        Ok(true) => report.ok(CHECK, format!("the user has WRITE on {name:?}")),
        Ok(false) => {
            let found = format!("the user has no right WRITE on the transactional id {name:?}");
            let to_do = "give it to the user (kafka-acls): without it a relay that was frozen is not shut out";
            report.warning(CHECK, found, to_do);
        }
        Err(error) => report.unknown(CHECK, chain(&error), ""),
    }
}
