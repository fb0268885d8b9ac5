//! `outbox.health()`: what is pending, what has failed, the state of the slot, and whether all is well. `status`,
//! metrics, `/readyz` and the dashboard query it.

use serde::Serialize;
use tokio_postgres::{Error, Row};

/// A row of `outbox.health_with_codes()`, in the form of the commands' JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Health {
    /// Whether all is well; null if nothing is known to be wrong, but something could not be seen.
    pub(crate) healthy: Option<bool>,
    /// What is wrong, in a sentence for people.
    pub(crate) reason: Option<String>,
    /// A word for each part of the reason.
    pub(crate) codes: Vec<String>,
    /// What could not be seen, in a sentence for people.
    pub(crate) unseen: Option<String>,
    pub(crate) pending: i64,
    pub(crate) pending_is_estimate: bool,
    /// `None` if no such event exists.
    pub(crate) oldest_pending_seconds: Option<f64>,
    pub(crate) retrying: i64,
    /// `None` if no such event exists.
    pub(crate) oldest_retrying_seconds: Option<f64>,
    pub(crate) scheduled: i64,
    /// Whether `scheduled` and `retrying` are estimates.
    pub(crate) scheduled_is_estimate: bool,
    pub(crate) failed: i64,
    pub(crate) failed_is_estimate: bool,
    pub(crate) keys_held: i64,
    #[serde(flatten)]
    pub(crate) slot: Slot,
}

/// The slot of the query; its fields are unknown if this database does not have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Slot {
    #[serde(rename = "slot")]
    pub(crate) name: String,
    /// Whether it is read; `None` if no such slot exists, or it is not visible.
    #[serde(rename = "slot_active")]
    pub(crate) is_active: Option<bool>,
    #[serde(rename = "slot_wal_status")]
    pub(crate) wal_status: Option<String>,
    #[serde(rename = "slot_kept_bytes")]
    pub(crate) kept_bytes: Option<i64>,
    /// Bytes until the slot is lost; `None` without a limit.
    #[serde(rename = "slot_safe_bytes")]
    pub(crate) safe_bytes: Option<i64>,
    #[serde(rename = "slot_behind_bytes")]
    pub(crate) behind_bytes: Option<i64>,
}

/// Codes under which events do not flow. Under the other codes they do, but something needs attention.
const STOPPED: [&str; 5] = ["slot_missing", "slot_lost", "slot_not_read", "slot_not_ready", "events_do_not_leave"];

/// Returns the query of health, for the slot `$1`.
pub(crate) fn with_codes() -> String {
    statement("codes", "health_with_codes")
}

/// Returns the same query without codes. The schema of an earlier version has none, and a relay that waits for its
/// upgrade is already queried.
pub(crate) fn without_codes() -> String {
    statement("'{}'::text[] AS codes", "health")
}

fn statement(codes: &str, function: &str) -> String {
    format!(
        "SELECT $1::text AS slot, healthy, reason, {codes}, unseen, pending, pending_is_estimate,
            extract(epoch FROM oldest_pending)::float8 AS oldest_pending, retrying,
            extract(epoch FROM oldest_retrying)::float8 AS oldest_retrying, scheduled, scheduled_is_estimate,
            failed, failed_is_estimate, keys_held,
            slot_active, slot_wal_status, slot_kept_bytes, slot_safe_bytes, slot_behind_bytes
         FROM outbox.{function}(slot => $1)"
    )
}

impl Health {
    /// Reads a row of these statements.
    pub(crate) fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            healthy: row.try_get("healthy")?,
            reason: row.try_get("reason")?,
            codes: row.try_get("codes")?,
            unseen: row.try_get("unseen")?,
            pending: row.try_get("pending")?,
            pending_is_estimate: row.try_get("pending_is_estimate")?,
            oldest_pending_seconds: row.try_get("oldest_pending")?,
            retrying: row.try_get("retrying")?,
            oldest_retrying_seconds: row.try_get("oldest_retrying")?,
            scheduled: row.try_get("scheduled")?,
            scheduled_is_estimate: row.try_get("scheduled_is_estimate")?,
            failed: row.try_get("failed")?,
            failed_is_estimate: row.try_get("failed_is_estimate")?,
            keys_held: row.try_get("keys_held")?,
            slot: Slot {
                name: row.try_get("slot")?,
                is_active: row.try_get("slot_active")?,
                wal_status: row.try_get("slot_wal_status")?,
                kept_bytes: row.try_get("slot_kept_bytes")?,
                safe_bytes: row.try_get("slot_safe_bytes")?,
                behind_bytes: row.try_get("slot_behind_bytes")?,
            },
        })
    }

    /// Whether events flow: committed events leave by themselves, and within a minute. Meaningful only if `reason` is
    /// set.
    pub(crate) fn flows(&self) -> bool {
        !self.codes.iter().any(|code| STOPPED.contains(&code.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_flow_although_some_have_failed_and_not_without_a_relay() {
        let flows = |codes: &[&str]| {
            Health { codes: codes.iter().map(ToString::to_string).collect(), ..Health::default() }.flows()
        };
        assert!(flows(&[]) && flows(&["events_failed", "slot_nearly_lost", "events_wait"]));
        assert!(!flows(&["events_failed", "slot_not_read"]) && !flows(&["events_do_not_leave"]));
    }
}
