//! One event, and its place among the events of its key. Commands and dashboard query it.

use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::format::{Tone, age, raw_json, seconds};

/// An event, with the fields of the table; times are RFC 3339 in UTC.
#[derive(Debug, Serialize)]
pub(crate) struct Event {
    pub(crate) id: Uuid,
    pub(crate) seq: i64,
    pub(crate) status: String,
    pub(crate) topic: String,
    pub(crate) exchange: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) aggregate_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) attempts: i32,
    pub(crate) replays: i32,
    pub(crate) holds_key: bool,
    pub(crate) last_error: Option<String>,
    pub(crate) created_at: String,
    pub(crate) available_at: Option<String>,
    pub(crate) first_attempted_at: Option<String>,
    pub(crate) last_attempted_at: Option<String>,
    pub(crate) processed_at: Option<String>,
    /// The state in one word, as in `outbox.backlog`.
    #[serde(skip)]
    pub(crate) state: String,
    #[serde(skip)]
    age_seconds: f64,
    /// Seconds until `available_at`.
    #[serde(skip)]
    due_seconds: Option<f64>,
    #[serde(flatten)]
    pub(crate) body: Option<Body>,
}

/// Headers and payload of an event, shown only on request.
#[derive(Debug, Serialize)]
pub(crate) struct Body {
    pub(crate) content_type: Option<String>,
    pub(crate) headers: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload_base64: Option<String>,
}

impl Event {
    /// Reads a row of these [`columns`].
    pub(crate) fn read(row: &Row, payload: bool) -> Result<Self, Error> {
        let body = if payload {
            Some(Body {
                content_type: row.try_get("content_type")?,
                headers: row.try_get::<_, Option<String>>("headers")?.and_then(raw_json),
                payload: row.try_get::<_, Option<String>>("payload")?.and_then(raw_json),
                payload_base64: row.try_get("payload_base64")?,
            })
        } else {
            None
        };
        Ok(Self {
            id: row.try_get("id")?,
            seq: row.try_get("seq")?,
            status: row.try_get("status")?,
            topic: row.try_get("topic")?,
            exchange: row.try_get("exchange")?,
            event_type: row.try_get("event_type")?,
            aggregate_type: row.try_get("aggregate_type")?,
            aggregate_id: row.try_get("aggregate_id")?,
            correlation_id: row.try_get("correlation_id")?,
            attempts: row.try_get("attempts")?,
            replays: row.try_get("replays")?,
            holds_key: row.try_get("holds_key")?,
            last_error: row.try_get("last_error")?,
            created_at: row.try_get("created_at")?,
            available_at: row.try_get("available_at")?,
            first_attempted_at: row.try_get("first_attempted_at")?,
            last_attempted_at: row.try_get("last_attempted_at")?,
            processed_at: row.try_get("processed_at")?,
            state: row.try_get("state")?,
            age_seconds: row.try_get("age_seconds")?,
            due_seconds: row.try_get("due_seconds")?,
            body,
        })
    }

    /// Returns how long ago the event was made, for people.
    pub(crate) fn age(&self) -> String {
        age(seconds(self.age_seconds))
    }

    /// Returns the key for people: both halves, or an empty text.
    pub(crate) fn key(&self) -> String {
        match (&self.aggregate_type, &self.aggregate_id) {
            (Some(kind), Some(id)) => format!("{kind}/{id}"),
            (None, Some(id)) => id.clone(),
            (_, None) => String::new(),
        }
    }

    /// Returns when a pending event is due, if it has a time of its own that has not come.
    pub(crate) fn due(&self) -> Option<String> {
        let due = self.due_seconds.filter(|due| self.status == "PENDING" && *due > 0.0)?;
        let what = if self.last_attempted_at.is_some() { "again in" } else { "in" };
        Some(format!("{what} {}", age(seconds(due))))
    }

    pub(crate) fn tone(&self) -> Tone {
        match self.status.as_str() {
            "FAILED" => Tone::Bad,
            "SENT" => Tone::Good,
            _ if self.attempts > 0 => Tone::Warning,
            _ => Tone::Plain,
        }
    }
}

/// An event that holds the key of another.
#[derive(Debug, Serialize)]
pub(crate) struct Holder {
    pub(crate) id: Uuid,
    pub(crate) status: String,
    pub(crate) last_error: Option<String>,
}

impl Holder {
    /// Reads a row of [`HELD_BY`].
    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self { id: row.try_get("id")?, status: row.try_get("status")?, last_error: row.try_get("last_error")? })
    }
}

/// SQL for the state of an event in one word, the same as in `outbox.backlog`. The statement names `outbox.events` e.
pub(crate) const STATE: &str = "
    CASE WHEN e.status <> 'PENDING' THEN lower(e.status::text)
         WHEN e.available_at IS NOT NULL AND e.last_attempted_at IS NOT NULL THEN 'retrying'
         WHEN e.available_at > now() THEN 'scheduled'
         ELSE 'pending' END";

/// Columns without headers and payload, which a role without the right to read those can list.
pub(crate) const ENVELOPE: &str = "
    e.id, e.seq, e.status, e.topic, e.exchange, e.event_type, e.aggregate_type, e.aggregate_id, e.correlation_id,
    e.attempts, e.replays, e.holds_key, e.last_error, e.created_at, e.available_at, e.first_attempted_at,
    e.last_attempted_at, e.processed_at";

/// Returns the columns that [`Event`] needs, of `outbox.events` as e. Times are text, and the age is in seconds.
pub(crate) fn columns(payload: bool) -> String {
    let body = if payload {
        ", e.content_type, e.headers::text AS headers, e.payload::text AS payload,
         replace(encode(e.payload_bytes, 'base64'), E'\\n', '') AS payload_base64"
    } else {
        ""
    };
    let [created, available, first, last, processed] =
        ["created_at", "available_at", "first_attempted_at", "last_attempted_at", "processed_at"].map(time);
    format!(
        "e.id, e.seq, e.status::text AS status, e.topic, e.exchange, e.event_type, e.aggregate_type, e.aggregate_id,
         e.correlation_id, e.attempts, e.replays, e.holds_key, e.last_error, {created} AS created_at, {available} AS available_at,
         {first} AS first_attempted_at, {last} AS last_attempted_at, {processed} AS processed_at,
         CASE WHEN isfinite(e.created_at) THEN extract(epoch FROM clock_timestamp() - e.created_at)::float8
             ELSE 0 END AS age_seconds,
         CASE WHEN isfinite(e.available_at) THEN extract(epoch FROM e.available_at - clock_timestamp())::float8
             END AS due_seconds,
         {STATE} AS state{body}"
    )
}

/// Returns SQL for a column's time as RFC 3339 in UTC.
fn time(column: &str) -> String {
    format!(
        "CASE WHEN isfinite(e.{column}) THEN to_char(e.{column} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')
             ELSE e.{column}::text END"
    )
}

/// Finds the event that holds the key of event `$1`, if that waits for it.
pub(crate) const HELD_BY: &str = "
    SELECT h.id, h.status::text AS status, h.last_error
    FROM outbox.events AS e JOIN outbox.events AS h ON h.holds_key AND h.aggregate_id = e.aggregate_id
        AND h.aggregate_type IS NOT DISTINCT FROM e.aggregate_type AND h.id <> e.id
    WHERE e.id = $1::text::uuid AND e.status = 'PENDING' AND NOT e.holds_key LIMIT 1";

/// Counts the pending events of the key of event `$1`: those made before it, and those made after it. At most `$2` are
/// counted of those without a time of their own, and as many of those with one.
pub(crate) const OF_ITS_KEY: &str = "
    WITH this AS (SELECT id, seq, aggregate_type, aggregate_id FROM outbox.events WHERE id = $1::text::uuid), others AS (
        (SELECT e.seq FROM this JOIN outbox.events AS e ON e.status = 'PENDING' AND e.available_at IS NULL
             AND e.aggregate_id = this.aggregate_id AND e.aggregate_type IS NOT DISTINCT FROM this.aggregate_type
             AND e.id <> this.id
         LIMIT $2)
        UNION ALL
        (SELECT e.seq FROM this JOIN outbox.events AS e ON e.status = 'PENDING' AND e.available_at IS NOT NULL
             AND e.aggregate_id = this.aggregate_id AND e.aggregate_type IS NOT DISTINCT FROM this.aggregate_type
             AND e.id <> this.id
         LIMIT $2)
    )
    SELECT count(*) FILTER (WHERE others.seq < this.seq) AS before,
        count(*) FILTER (WHERE others.seq > this.seq) AS after
    FROM others, this";
