//! Panels without a filter: failures, keys, relays, the audit. Each statement reads a bounded part of the table.

use std::sync::Arc;

use axum::{extract::State, http::HeaderMap, response::Response};
use serde_json::{Value, json};

use super::{
    Dashboard,
    refusal::{Refusal, json},
    who::Role,
};
use crate::queries::{
    event::STATE,
    relays::{self, Relays},
};

const FAILURES: &str = "
    WITH groups AS MATERIALIZED (
        SELECT topic, left(last_error, 1000) AS last_error, failed, keys_held, last_attempted_at, example_id FROM outbox.failures(10000)
    )
    SELECT json_build_object(
        'groups', coalesce((SELECT json_agg(g) FROM (SELECT * FROM groups LIMIT 200) AS g), '[]'),
        'looked_at', (SELECT coalesce(sum(failed), 0) FROM groups),
        'is_more', (SELECT coalesce(sum(failed), 0) >= 10000 FROM groups))::text";

/// Most relays that the page shows.
const MOST_RELAYS: usize = 100;

const SLOT: &str = "
    SELECT json_build_object('name', slot_name, 'active', active, 'wal_status', wal_status, 'safe', safe_wal_size,
        'kept', pg_wal_lsn_diff(wal_end, restart_lsn), 'behind', pg_wal_lsn_diff(wal_end, confirmed_flush_lsn))::text
    FROM pg_replication_slots,
         LATERAL (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn()
                      END AS wal_end) AS w
    WHERE slot_name = $1";

const AUDIT: &str = "
    SELECT json_build_object('rows', coalesce(json_agg(a), '[]'))::text
    FROM (SELECT at, action, filter, events, who, role, program FROM outbox.audit ORDER BY id DESC LIMIT 200) AS a";

/// Returns the statement for held keys. Waiting events are counted among the oldest pending ones, as many as can be
/// read quickly.
fn keys_statement() -> String {
    format!(
        "WITH waiting AS MATERIALIZED (
             SELECT aggregate_type, aggregate_id, count(*) AS events FROM (
                 SELECT aggregate_type, aggregate_id FROM outbox.events
                 WHERE status = 'PENDING' AND available_at IS NULL ORDER BY seq LIMIT 10000
             ) AS oldest WHERE aggregate_id IS NOT NULL GROUP BY 1, 2
         ), held AS (
             SELECT e.id, e.aggregate_type, e.aggregate_id, {STATE} AS state, e.attempts, e.available_at, left(e.last_error, 500) AS last_error
             FROM outbox.events AS e WHERE e.holds_key AND e.aggregate_id IS NOT NULL LIMIT 201
         )
         SELECT json_build_object(
             'rows', coalesce((SELECT json_agg(k) FROM (
                 SELECT h.*, coalesce(w.events, 0) AS waiting
                 FROM held AS h LEFT JOIN waiting AS w ON w.aggregate_id = h.aggregate_id AND w.aggregate_type IS NOT DISTINCT FROM h.aggregate_type
                 ORDER BY h.state, coalesce(w.events, 0) DESC, h.aggregate_id LIMIT 200
             ) AS k), '[]'),
             'is_more', (SELECT count(*) > 200 FROM held), 'counted', 10000)::text"
    )
}

async fn answer(
    dashboard: &Dashboard,
    headers: &HeaderMap,
    sql: &str,
    arguments: &[Option<&str>],
) -> Result<Response, Refusal> {
    dashboard.access.at_least(Role::Reader, headers)?;
    let found: Value = dashboard.reader()?.json(sql, arguments).await?;
    Ok(json(&found))
}

/// Returns the failed events, by topic and error.
pub(super) async fn failures(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    answer(&dashboard, &headers, FAILURES, &[]).await
}

/// Returns the held keys, each with its holder.
pub(super) async fn keys(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    answer(&dashboard, &headers, &keys_statement(), &[]).await
}

/// Returns the connected relays, and the state of the slot.
pub(super) async fn relays(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    dashboard.access.at_least(Role::Reader, &headers)?;
    let (reader, slot) = (dashboard.reader()?, Some(dashboard.slot.as_str()));
    let mut relays = reader.read(relays::SESSIONS, &[slot, Some(&dashboard.relay_name)], Relays::read).await?;
    relays.sessions.truncate(MOST_RELAYS);
    let slot = reader.json(SLOT, &[slot]).await?;
    Ok(json(&json!({ "rows": relays.sessions, "is_partial": relays.is_partial, "slot": slot })))
}

/// Returns the audit: who has replayed or released which events.
pub(super) async fn audit(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    answer(&dashboard, &headers, AUDIT, &[]).await
}
