//! What the pages show that needs no filter: failures, keys, relays, the audit. Each statement reads a bounded part of the table.

use std::sync::Arc;

use axum::{extract::State, http::HeaderMap, response::Response};
use serde_json::Value;

use super::{
    Dashboard,
    access::Role,
    refusal::{Refusal, json},
};

/// `outbox.health_with_codes()`, with seconds for intervals.
pub(super) const HEALTH: &str = "
    SELECT to_json(h)::text FROM (
        SELECT healthy, reason, codes, unseen, pending, pending_is_estimate, extract(epoch FROM oldest_pending)::float8 AS oldest_pending,
               retrying, extract(epoch FROM oldest_retrying)::float8 AS oldest_retrying, scheduled, scheduled_is_estimate,
               failed, failed_is_estimate, keys_held, slot_active, slot_wal_status, slot_kept_bytes, slot_safe_bytes, slot_behind_bytes
        FROM outbox.health_with_codes($1)
    ) AS h";

/// The state of an event in one word, the same as in `outbox.backlog`. For a statement in which `outbox.events` is e.
pub(super) const STATE: &str = "
    CASE WHEN e.status <> 'PENDING' THEN lower(e.status::text)
         WHEN e.available_at IS NOT NULL AND e.last_attempted_at IS NOT NULL THEN 'retrying'
         WHEN e.available_at > now() THEN 'scheduled'
         ELSE 'pending' END";

const FAILURES: &str = "
    WITH groups AS MATERIALIZED (
        SELECT topic, left(last_error, 1000) AS last_error, failed, keys_held, last_attempted_at, example_id FROM outbox.failures(10000)
    )
    SELECT json_build_object(
        'groups', coalesce((SELECT json_agg(g) FROM (SELECT * FROM groups LIMIT 200) AS g), '[]'),
        'looked_at', (SELECT coalesce(sum(failed), 0) FROM groups),
        'is_more', (SELECT coalesce(sum(failed), 0) >= 10000 FROM groups))::text";

const RELAYS: &str = "
    SELECT json_build_object(
        'rows', coalesce((
            SELECT json_agg(r ORDER BY r.streams DESC, r.since, r.pid) FROM (
                SELECT a.pid, a.usename AS role, a.application_name AS name, host(a.client_addr) AS address, a.backend_start AS since,
                       a.state, a.backend_type = 'walsender' AS is_walsender, s.slot_name IS NOT NULL AS streams
                FROM pg_stat_activity AS a
                LEFT JOIN pg_replication_slots AS s ON s.active_pid = a.pid AND s.slot_name = $1
                WHERE a.datname = current_database() AND (a.application_name = $2 OR s.slot_name IS NOT NULL)
                LIMIT 100
            ) AS r
        ), '[]'),
        'is_partial', NOT pg_has_role('pg_read_all_stats', 'USAGE'),
        'slot', (
            SELECT json_build_object('name', slot_name, 'active', active, 'wal_status', wal_status, 'safe', safe_wal_size,
                'kept', pg_wal_lsn_diff(wal_end, restart_lsn), 'behind', pg_wal_lsn_diff(wal_end, confirmed_flush_lsn))
            FROM pg_replication_slots,
                 LATERAL (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS wal_end) AS w
            WHERE slot_name = $1
        ))::text";

const AUDIT: &str = "
    SELECT json_build_object('rows', coalesce(json_agg(a), '[]'))::text
    FROM (SELECT at, action, filter, events, who, role, program FROM outbox.audit ORDER BY id DESC LIMIT 200) AS a";

/// How many wait is counted among the events that are owed for the longest, as many as are read quickly.
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

/// What has failed, by topic and error.
pub(super) async fn failures(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    answer(&dashboard, &headers, FAILURES, &[]).await
}

/// Which keys are held, by which event.
pub(super) async fn keys(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    answer(&dashboard, &headers, &keys_statement(), &[]).await
}

/// Which relays are connected, and how the slot fares.
pub(super) async fn relays(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    answer(&dashboard, &headers, RELAYS, &[Some(&dashboard.slot), Some(&dashboard.relay_name)]).await
}

/// Who has replayed or released what.
pub(super) async fn audit(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    answer(&dashboard, &headers, AUDIT, &[]).await
}
