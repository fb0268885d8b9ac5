//! Check whether a queue is bound for every topic of the last day.
//!
//! AMQP cannot list bindings, and only publishing tests a route: consumers would see the test message. So the check
//! reads the table.
//!
//! `SENT` means that RabbitMQ has routed the event, and `FAILED`, with the broker's words, that it has not. The last
//! verdict of a topic counts; a topic without a verdict is unknown.

use outbox_service::error::chain;
use tokio_postgres::{Client, Error, Row, error::SqlState};

use super::super::MAY_NOT_READ;
use crate::{
    findings::Report,
    format::{age, count, escaped, seconds, thousands},
    queries::session::took_too_long,
};

/// Most events of the last day that are read: about a second's work.
const MOST: i64 = 200_000;

/// Most topics that are named.
const NAMED: usize = 5;

const CHECK: &str = "routes";

/// Events of the last day by exchange and topic: their number, how long ago the last was routed and the last has
/// failed, and the broker's words to the latter. Ids that the outbox has made are found by the time in them, and failed
/// events by their index.
const ROUTES: &str = "SELECT exchange, topic, count(*) AS events,
        extract(epoch FROM clock_timestamp() - max(processed_at) FILTER (WHERE status = 'SENT'))::float8 AS routed_ago,
        extract(epoch FROM clock_timestamp() - max(last_attempted_at) FILTER (WHERE status = 'FAILED'))::float8
            AS failed_ago,
        (array_agg(left(last_error, 200) ORDER BY last_attempted_at DESC) FILTER (WHERE status = 'FAILED'))[1] AS why
    FROM (
        (SELECT exchange, topic, status, processed_at, last_attempted_at, last_error FROM outbox.events
         WHERE status <> 'FAILED' AND created_at > now() - interval '1 day'
           AND id > (lpad(to_hex((extract(epoch FROM now() - interval '1 day') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
         ORDER BY id DESC LIMIT $1)
        UNION ALL
        (SELECT exchange, topic, status, processed_at, last_attempted_at, last_error FROM outbox.events
         WHERE status = 'FAILED' AND last_attempted_at > now() - interval '1 day'
         ORDER BY seq DESC LIMIT $1)
    ) AS lately
    GROUP BY exchange, topic ORDER BY exchange, topic";

pub(super) async fn inspect(client: &Client, report: &mut Report) {
    match client.query(ROUTES, &[&MOST]).await {
        Ok(rows) => {
            if let Err(error) = judge(&rows, report) {
                report.unknown(CHECK, chain(&error), "");
            }
        }
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            report.unknown(CHECK, "this role may not read events, so topics cannot be looked at", MAY_NOT_READ);
        }
        Err(error) if took_too_long(&error) => {
            report.unknown(CHECK, "there are too many events to look at in time", "allow more by --timeout");
        }
        // The extension is missing or broken, which another check reports.
        Err(error) => report.unknown(CHECK, chain(&error), ""),
    }
}

/// Reports the topics without a queue. A row has exchange and topic, the number of events, how many seconds ago the
/// last was routed and the last has failed, and why.
fn judge(rows: &[Row], report: &mut Report) -> Result<(), Error> {
    let (mut unrouted, mut unknown, mut events) = (Vec::new(), Vec::new(), 0);
    let mut oldest_proof: f64 = 0.0;
    let mut why: Option<String> = None;
    for row in rows {
        let (exchange, topic): (Option<String>, String) = (row.try_get("exchange")?, row.try_get("topic")?);
        events += row.try_get::<_, i64>("events")?;
        let (routed, failed): (Option<f64>, Option<f64>) = (row.try_get("routed_ago")?, row.try_get("failed_ago")?);
        let name = exchange.map_or_else(|| topic.clone(), |exchange| format!("{topic} (exchange {exchange})"));
        match (routed, failed) {
            (routed, Some(failed)) if routed.is_none_or(|routed| routed > failed) => {
                unrouted.push(name);
                why = why.or(row.try_get("why")?);
            }
            (Some(routed), _) => oldest_proof = oldest_proof.max(routed),
            (None, _) => unknown.push(name),
        }
    }
    let topics = |names: &[String]| {
        let more = if names.len() > NAMED { ", …" } else { "" };
        let number = i64::try_from(names.len()).unwrap_or(i64::MAX);
        format!("{}: {}{more}", count(number, "topic"), names.get(..NAMED).unwrap_or(names).join(", "))
    };
    if !unrouted.is_empty() {
        let to_do = "for 312 NO_ROUTE bind a queue for them; else see outbox-relay events ID; then replay: outbox-relay replay --topic … --dry-run";
        let why = escaped(&why.unwrap_or_else(|| "without a reason".to_owned()));
        report.bad(CHECK, format!("the last event has FAILED ({why}) of {}", topics(&unrouted)), to_do);
    } else if !unknown.is_empty() {
        report.unknown(
            CHECK,
            format!("nothing was sent yet of {}", topics(&unknown)),
            "see that a queue is bound for each",
        );
    } else if rows.is_empty() {
        report.unknown(CHECK, "there was no event in the last day", "");
    } else if events >= MOST {
        let found = format!(
            "the last {} events were routed; those before, of the last day, were not looked at",
            thousands(events)
        );
        report.unknown(CHECK, found, "");
    } else {
        let number = count(i64::try_from(rows.len()).unwrap_or(i64::MAX), "topic");
        report.ok(
            CHECK,
            format!(
                "{number} of the last day: each had a queue when it was last sent, {} ago or less",
                age(seconds(oldest_proof))
            ),
        );
    }
    Ok(())
}
