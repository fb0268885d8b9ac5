//! Lists events by filter, a window at a time; and shows one event with everything known of it.
//!
//! Most filters have no index, because each would cost every emit. So a page reads a window of the newest events by
//! primary key (ids of version 7 are ordered by time), or of one state's events by its partial index.
//!
//! A page says how far it has read, and the next page continues there.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use outbox_service::time::{Timestamp, moment};
use serde_json::{Map, Value, json};
use tokio_postgres::{Error, Row};
use tracing::info;
use uuid::Uuid;

use super::{
    Dashboard,
    refusal::{self, Refusal},
    who::Role,
};
use crate::queries::event::{ENVELOPE, Event, HELD_BY, Holder, columns};

/// Events that a page reads.
const WINDOW: usize = 20_000;

/// Events that a page shows.
const PAGE: usize = 50;

/// Most characters of an error, in a list and in the detail of an event.
const LISTED_ERROR: usize = 300;
const SHOWN_ERROR: usize = 4000;

/// Which events a page reads, and in which order.
struct Scan {
    /// The condition that an index serves; `$1` is the end of the page before.
    among: &'static str,
    order: &'static str,
    /// The position of an event in the order, as text.
    place: &'static str,
    /// The condition that the index does not serve.
    also: &'static str,
}

/// Returns the scan for the word of a state; the empty word means every state.
fn scan(state: &str) -> Option<Scan> {
    const BY_ID: &str = "($1::text IS NULL OR e.id < $1::text::uuid)";
    let by_id = |also| Scan { among: BY_ID, order: "e.id DESC", place: "e.id::text", also };
    let due = |also| {
        Scan {
        among: "e.status = 'PENDING' AND e.available_at IS NOT NULL AND ($1::text IS NULL
                OR (e.available_at, e.seq) > (split_part($1::text, ' ', 1)::timestamptz, split_part($1::text, ' ', 2)::bigint))",
        order: "e.available_at, e.seq",
        place: "concat(to_char(e.available_at, 'YYYY-MM-DD\"T\"HH24:MI:SS.USOF'), ' ', e.seq)",
        also,
    }
    };
    Some(match state {
        "" => by_id("true"),
        "sent" => by_id("e.status = 'SENT'"),
        "failed" => Scan {
            among: "e.status = 'FAILED' AND ($1::text IS NULL OR e.seq < $1::text::bigint)",
            order: "e.seq DESC",
            place: "e.seq::text",
            also: "true",
        },
        "pending" => Scan {
            among: "e.status = 'PENDING' AND e.available_at IS NULL AND ($1::text IS NULL OR e.seq > $1::text::bigint)",
            order: "e.seq",
            place: "e.seq::text",
            also: "true",
        },
        "retrying" => due("e.last_attempted_at IS NOT NULL"),
        "scheduled" => due("e.last_attempted_at IS NULL"),
        _ => return None,
    })
}

/// Returns the condition that bounds the ids by time, so that a window need not begin at the newest event. The first id
/// and the id after the last are the arguments `first` and `first + 1`.
fn bounds(state: &str, first: usize) -> String {
    match state {
        "" | "sent" => format!(
            "AND (${first}::text IS NULL OR e.id >= ${first}::text::uuid) AND (${next}::text IS NULL OR e.id < ${next}::text::uuid)",
            next = first + 1,
        ),
        _ => String::new(),
    }
}

fn statement(state: &str, scan: &Scan) -> String {
    let Scan { among, order, place, also } = scan;
    let bounds = bounds(state, 8);
    format!(
        "WITH page AS MATERIALIZED (
             SELECT e.*, {place} AS place
             FROM (
                 SELECT {ENVELOPE}
                 FROM outbox.events AS e WHERE {among} {bounds} ORDER BY {order} LIMIT {WINDOW}
             ) AS e
             WHERE {also}
               AND ($2::text IS NULL OR e.topic = $2) AND ($3::text IS NULL OR e.aggregate_type = $3)
               AND ($4::text IS NULL OR e.aggregate_id = $4) AND ($5::text IS NULL OR e.correlation_id = $5)
               AND ($6::text IS NULL OR e.created_at >= $6::text::timestamptz)
               AND ($7::text IS NULL OR e.created_at < $7::text::timestamptz)
             LIMIT {PAGE}
         )
         SELECT {columns}, e.place FROM page AS e",
        columns = columns(false),
    )
}

/// Returns the statement for the end of the window; null if no event follows it.
fn end_statement(state: &str, scan: &Scan) -> String {
    let Scan { among, order, place, .. } = scan;
    let bounds = bounds(state, 2);
    format!(
        "SELECT json_build_object('end', (SELECT {place} FROM outbox.events AS e WHERE {among} {bounds} ORDER BY {order} OFFSET {last} LIMIT 1),
             'events', (SELECT count(*) FROM (SELECT FROM outbox.events AS e WHERE {among} {bounds} ORDER BY {order} LIMIT {WINDOW}) AS e))::text",
        last = WINDOW - 1,
    )
}

/// Lists events by filter.
pub(super) async fn list(
    State(dashboard): State<Arc<Dashboard>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    dashboard.access.at_least(Role::Reader, &headers)?;
    let reader = dashboard.reader()?;
    let query: HashMap<String, String> =
        form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let asked = |name: &str| query.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let state = asked("status").unwrap_or_default();
    let scan = scan(state).ok_or_else(|| Refusal::bad("No event has that status."))?;
    let (from, to) = (asked("from").map(time).transpose()?, asked("to").map(time).transpose()?);
    let first_id = from.map(|from| id_in(from.as_millisecond()));
    let end_id = to.map(|to| id_in((to + Duration::from_nanos(999_999)).as_millisecond()));
    let (from, to) = (from.map(|from| from.to_string()), to.map(|to| to.to_string()));
    let arguments = [
        asked("cursor"),
        asked("topic"),
        asked("aggregate_type"),
        asked("aggregate_id"),
        asked("correlation_id"),
        from.as_deref(),
        to.as_deref(),
        first_id.as_deref(),
        end_id.as_deref(),
    ];
    let read = |rows: &[Row]| rows.iter().map(|row| Ok((Event::read(row, false)?, row.try_get("place")?))).collect();
    let page: Vec<(Event, String)> = reader.read(&statement(state, &scan), &arguments, read).await?;
    let (next, searched) = match page.get(PAGE - 1) {
        None => {
            let arguments = [asked("cursor"), first_id.as_deref(), end_id.as_deref()];
            let end = reader.json(&end_statement(state, &scan), &arguments).await?;
            let part = |name: &str| end.get(name).cloned().unwrap_or_default();
            (part("end"), part("events"))
        }
        Some((_, place)) => (json!(place), json!(PAGE)),
    };
    let rows: Vec<_> = page.iter().map(|(event, _)| shown(event, LISTED_ERROR)).collect();
    Ok(refusal::json(&json!({ "rows": rows, "next": next, "searched": searched })))
}

fn time(text: &str) -> Result<Timestamp, Refusal> {
    moment(text)
        .filter(|time| *time >= Timestamp::UNIX_EPOCH)
        .ok_or_else(|| Refusal::bad("A time is written as 2026-11-22T14:00:00.000Z, and is not before 1970."))
}

/// Returns the least id of version 7 of this millisecond since 1970.
fn id_in(ms: i64) -> String {
    Uuid::from_u128(u128::from(ms.unsigned_abs()) << 80).to_string()
}

/// Returns an event in the page's form, with at most `most` characters of its last error.
fn shown(event: &Event, most: usize) -> Map<String, Value> {
    let Value::Object(mut shown) = json!(event) else { return Map::new() };
    let error = event.last_error.as_ref().map(|error| error.chars().take(most).collect::<String>());
    shown.insert("seq".to_owned(), json!(event.seq.to_string())); // JavaScript's numbers are exact up to 2^53
    shown.insert("state".to_owned(), json!(event.state));
    shown.insert("last_error".to_owned(), json!(error));
    shown
}

fn one_statement() -> String {
    format!("SELECT {}, e.content_type FROM outbox.events AS e WHERE e.id = $1::text::uuid", columns(false))
}

/// Operators' actions on the event, among the latest 10,000 of the audit.
const AUDIT: &str = "
    SELECT coalesce(json_agg(a), '[]')::text FROM (
        SELECT at, action, who, role, program FROM (SELECT * FROM outbox.audit ORDER BY id DESC LIMIT 10000) AS latest
        WHERE filter ->> 'id' = $1 ORDER BY id LIMIT 50
    ) AS a";

/// Returns one event, with its key's holder and its audit.
pub(super) async fn one(
    State(dashboard): State<Arc<Dashboard>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    dashboard.access.at_least(Role::Reader, &headers)?;
    let reader = dashboard.reader()?;
    let read = |rows: &[Row]| {
        let read =
            |row: &Row| Ok::<_, Error>((Event::read(row, false)?, row.try_get::<_, Option<String>>("content_type")?));
        rows.first().map(read).transpose()
    };
    let (event, content_type) = reader.read(&one_statement(), &[Some(&id)], read).await?.ok_or_else(unknown)?;
    let id = event.id.to_string();
    let read = |rows: &[Row]| rows.first().map(Holder::read).transpose();
    let holder = reader.read(HELD_BY, &[Some(&id)], read).await?;
    let audit = reader.json(AUDIT, &[Some(&id)]).await?;
    let mut event = shown(&event, SHOWN_ERROR);
    event.insert("content_type".to_owned(), json!(content_type));
    Ok(refusal::json(&json!({ "event": event, "held_by": holder.map(|holder| holder.id), "audit": audit })))
}

/// At most 64 KiB each of headers and payload, as a page is for people.
const CONTENTS: &str = "
    SELECT json_build_object('headers', left(headers::text, 65536), 'is_base64', payload_bytes IS NOT NULL,
        'payload', coalesce(left(payload::text, 65536), encode(substring(payload_bytes FROM 1 FOR 49152), 'base64')),
        'bytes', coalesce(octet_length(payload::text), octet_length(payload_bytes)),
        'is_cut', coalesce(length(payload::text) > 65536, octet_length(payload_bytes) > 49152, false))::text
    FROM outbox.events WHERE id = $1::text::uuid";

/// Returns payload and headers of an event, for an operator.
pub(super) async fn contents(
    State(dashboard): State<Arc<Dashboard>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let who = dashboard.access.at_least(Role::Operator, &headers)?;
    let found: Value = dashboard.operator()?.json(CONTENTS, &[Some(&id)]).await?;
    if found.is_null() {
        return Err(unknown());
    }
    info!(target: "relay", name = who.name, id, "looked at an event's payload in the dashboard");
    Ok(refusal::json(&found))
}

fn unknown() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "There is no such event. It may have been deleted.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_least_id_that_was_made_then() {
        let id_at = |text| id_in(time(text).ok().unwrap().as_millisecond());
        assert_eq!(id_at("1970-01-01T00:00:00.000Z"), "00000000-0000-0000-0000-000000000000");
        assert_eq!(id_at("2000-02-29T12:34:56.789Z"), "00dd9d5a-0c95-0000-0000-000000000000");
        assert_eq!(id_at("2026-11-22T14:00:00Z"), "01a2038e-7f00-0000-0000-000000000000");
        assert_eq!(id_at("2026-11-22T14:00:00.0019Z"), "01a2038e-7f01-0000-0000-000000000000");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "now", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z", "-1-1-1T0:0:0Z", "99999-01-01T00:00:00Z"]
        {
            assert!(time(text).is_err(), "{text:?}");
        }
    }
}
