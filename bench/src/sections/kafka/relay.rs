//! Events per second until every row is `SENT`, and what each costs.

use super::{SECTION, Setup};
use crate::{
    load::{Load, Payload},
    report::Report,
    run::MANY_KEYS,
};

/// Of the case that others are compared with.
pub(super) const BACKLOG: &str = "backlog, 200 B, 100000 keys";
/// So many take some seconds.
const EVENTS: u64 = 200_000;

pub(super) async fn measure(setup: &Setup<'_>, report: &mut Report) {
    for (payload, keys) in [(Payload::B200, MANY_KEYS), (Payload::Kb1, MANY_KEYS), (Payload::B200, 1)] {
        if setup.bench.wants(&format!("backlog, {payload}, {keys} keys")) {
            backlog(setup, report, payload, keys).await;
        }
    }
    let case = format!("live, 200 B, {MANY_KEYS} keys");
    if setup.bench.wants(&case) {
        let (db, topic) = (setup.bench.postgres.database().await, setup.topic().await);
        let load = Load { payload: Payload::B200, keys: MANY_KEYS };
        setup.run(&db).live(report, &case, &load, &setup.relay(&db, &topic)).await;
        setup.kafka.delete_topic(&topic).await;
    }
}

/// One run with all events in the table when the relay starts.
pub(super) async fn backlog(setup: &Setup<'_>, report: &mut Report, payload: Payload, keys: u64) {
    let (db, topic) = (setup.bench.postgres.database().await, setup.topic().await);
    let (case, load) = (format!("backlog, {payload}, {keys} keys"), Load { payload, keys });
    let events = setup.bench.amount(EVENTS);
    let rate = setup.run(&db).drain_backlog(report, &case, &load, events, &setup.relay(&db, &topic)).await;
    assert_eq!(setup.kafka.records(&topic).await.len() as u64, events, "{case}: each event is there once");
    setup.kafka.delete_topic(&topic).await;
    if let Some(alone) = report.latest(SECTION, &super::alone::case("outbox", payload), "rate") {
        report.add(SECTION, &case, "of ceiling", "×", rate / alone);
    }
}
