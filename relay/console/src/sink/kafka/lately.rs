//! What the table says of the last day's events: their topics, which of them have no key, and how large they are.

use std::{collections::BTreeMap, time::Duration};

use outbox_service::{error::chain, sink::kafka::TopicTemplate, time::seconds};
use tokio_postgres::{Client, Error, Row, error::SqlState};

use super::super::MAY_NOT_READ;
use crate::queries::session::took_too_long;

/// Most events of the last day that are read: about a second's work.
const MOST: i64 = 200_000;

/// What names the topics of the last day's events, and whether those have a key. Ids that the outbox has made are found
/// by the time in them.
const DESTINATIONS: &str =
    "SELECT exchange, topic, aggregate_type, event_type, bool_or(aggregate_id IS NULL) AS keyless FROM (
        SELECT exchange, topic, aggregate_type, event_type, aggregate_id FROM outbox.events
        WHERE created_at > now() - interval '1 day'
          AND id > (lpad(to_hex((extract(epoch FROM now() - interval '1 day') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
        ORDER BY id DESC LIMIT $1) AS lately GROUP BY 1, 2, 3, 4 LIMIT 10000";

/// The largest event of each destination. A body that PostgreSQL keeps elsewhere is read only of the 20 events that
/// take most room in the table.
const LARGEST: &str = "SELECT exchange, topic, aggregate_type, event_type, max(
            coalesce(octet_length(payload_bytes), octet_length(payload::text), 0) + coalesce(octet_length(headers::text), 0)
            + octet_length(concat(aggregate_type, aggregate_id, event_type, correlation_id, content_type)))::bigint AS bytes
    FROM (
        SELECT *, row_number() OVER (PARTITION BY exchange, topic, aggregate_type, event_type
            ORDER BY coalesce(pg_column_size(payload_bytes), pg_column_size(payload), 0) + coalesce(pg_column_size(headers), 0) DESC)
            AS place
        FROM (
            SELECT * FROM outbox.events
            WHERE created_at > now() - interval '1 day'
              AND id > (lpad(to_hex((extract(epoch FROM now() - interval '1 day') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
            ORDER BY id DESC LIMIT $1) AS lately) AS ranked
    WHERE place <= 20 GROUP BY 1, 2, 3, 4 LIMIT 10000";

/// The database's clock, in seconds since 1970.
const CLOCK: &str = "SELECT extract(epoch FROM clock_timestamp())::float8 AS clock";

/// Why the table could not be asked, and what to do.
pub(super) type Unknown = (String, &'static str);

/// The topics of the last day's events, and whether an event of each had no key.
pub(super) async fn topics(client: &Client, template: &TopicTemplate) -> Result<BTreeMap<String, bool>, Unknown> {
    let mut topics = BTreeMap::new();
    for row in client.query(DESTINATIONS, &[&MOST]).await.map_err(unknown)? {
        let keyless: bool = row.try_get("keyless").map_err(unknown)?;
        *topics.entry(name(&row, template)).or_default() |= keyless;
    }
    Ok(topics)
}

/// The bytes of each topic's largest event: body, headers and what else has no length of its own.
pub(super) async fn largest(client: &Client, template: &TopicTemplate) -> Result<BTreeMap<String, i64>, Unknown> {
    let mut largest: BTreeMap<String, i64> = BTreeMap::new();
    for row in client.query(LARGEST, &[&MOST]).await.map_err(unknown)? {
        let bytes: i64 = row.try_get("bytes").map_err(unknown)?;
        let known = largest.entry(name(&row, template)).or_default();
        *known = bytes.max(*known);
    }
    Ok(largest)
}

/// By how much this machine's clock and the database's differ.
pub(super) async fn clocks_differ(client: &Client) -> Result<Duration, Unknown> {
    let row = client.query_one(CLOCK, &[]).await.map_err(unknown)?;
    let here = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64();
    let clock: f64 = row.try_get("clock").map_err(unknown)?;
    Ok(seconds((clock - here).abs()))
}

fn name(row: &Row, template: &TopicTemplate) -> String {
    let text = |column| row.try_get::<_, Option<String>>(column).ok().flatten();
    let (exchange, aggregate_type, kind) = (text("exchange"), text("aggregate_type"), text("event_type"));
    let topic = text("topic").unwrap_or_default();
    template.name(exchange.as_deref(), &topic, aggregate_type.as_deref(), kind.as_deref()).into_owned()
}

fn unknown(error: Error) -> Unknown {
    if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        ("this role may not read events, so topics cannot be looked at".to_owned(), MAY_NOT_READ)
    } else if took_too_long(&error) {
        ("there are too many events to look at in time".to_owned(), "allow more by --timeout")
    } else {
        (chain(&error), "") // the extension is missing or broken, which another check reports
    }
}
