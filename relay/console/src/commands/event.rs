//! One event as the commands show it.

use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::format::{Tone, age, raw_json};

/// An event. Its fields are those of the table; times are RFC 3339 in UTC.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    pub(super) id: Uuid,
    pub(super) seq: i64,
    pub(super) status: String,
    pub(super) topic: String,
    pub(super) exchange: Option<String>,
    pub(super) event_type: Option<String>,
    pub(super) aggregate_type: Option<String>,
    pub(super) aggregate_id: Option<String>,
    pub(super) correlation_id: Option<String>,
    pub(super) attempts: i32,
    pub(super) replays: i32,
    pub(super) holds_key: bool,
    pub(super) last_error: Option<String>,
    pub(super) created_at: String,
    pub(super) available_at: Option<String>,
    pub(super) first_attempted_at: Option<String>,
    pub(super) last_attempted_at: Option<String>,
    pub(super) processed_at: Option<String>,
    #[serde(skip)]
    age_seconds: f64,
    /// Until `available_at`.
    #[serde(skip)]
    due_seconds: Option<f64>,
    #[serde(flatten)]
    pub(super) body: Option<Body>,
}

/// What an event carries. Shown only when asked for.
#[derive(Debug, Serialize)]
pub(super) struct Body {
    pub(super) content_type: Option<String>,
    pub(super) headers: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payload_base64: Option<String>,
}

impl Event {
    /// Reads a row of [`sql::events`](super::sql::events).
    pub(super) fn read(row: &Row, payload: bool) -> Result<Self, Error> {
        let body = if payload {
            Some(Body {
                content_type: row.try_get(20)?,
                headers: row.try_get::<_, Option<String>>(21)?.and_then(raw_json),
                payload: row.try_get::<_, Option<String>>(22)?.and_then(raw_json),
                payload_base64: row.try_get(23)?,
            })
        } else {
            None
        };
        Ok(Self {
            id: row.try_get(0)?,
            seq: row.try_get(1)?,
            status: row.try_get(2)?,
            topic: row.try_get(3)?,
            exchange: row.try_get(4)?,
            event_type: row.try_get(5)?,
            aggregate_type: row.try_get(6)?,
            aggregate_id: row.try_get(7)?,
            correlation_id: row.try_get(8)?,
            attempts: row.try_get(9)?,
            replays: row.try_get(10)?,
            holds_key: row.try_get(11)?,
            last_error: row.try_get(12)?,
            created_at: row.try_get(13)?,
            available_at: row.try_get(14)?,
            first_attempted_at: row.try_get(15)?,
            last_attempted_at: row.try_get(16)?,
            processed_at: row.try_get(17)?,
            age_seconds: row.try_get(18)?,
            due_seconds: row.try_get(19)?,
            body,
        })
    }

    /// How long ago it was made, for people.
    pub(super) fn age(&self) -> String {
        age(self.age_seconds)
    }

    /// Its key, for people: both halves, or nothing.
    pub(super) fn key(&self) -> String {
        match (&self.aggregate_type, &self.aggregate_id) {
            (Some(kind), Some(id)) => format!("{kind}/{id}"),
            (None, Some(id)) => id.clone(),
            (_, None) => String::new(),
        }
    }

    /// When it leaves or is tried again, if it is owed and has a time of its own that has not come.
    pub(super) fn due(&self) -> Option<String> {
        let seconds = self.due_seconds.filter(|seconds| self.status == "PENDING" && *seconds > 0.0)?;
        let what = if self.last_attempted_at.is_some() { "again in" } else { "in" };
        Some(format!("{what} {}", age(seconds)))
    }

    pub(super) fn tone(&self) -> Tone {
        match self.status.as_str() {
            "FAILED" => Tone::Bad,
            "SENT" => Tone::Good,
            _ if self.attempts > 0 => Tone::Warning,
            _ => Tone::Plain,
        }
    }
}
