//! Replay and release. A preview counts the events that an action would change, and the action changes no more than
//! that; the database's functions write the audit, under the name of the operator's token.

use std::sync::Arc;

use axum::{body::Bytes, extract::State, http::HeaderMap, response::Response};
use serde_json::{Value, json};
use tracing::info;

use super::{
    Dashboard,
    refusal::{self, Refusal},
};

/// Most events that one action changes: one transaction of some seconds.
const MOST: u64 = 10_000;

/// Most ids in one request.
const MOST_IDS: usize = 1000;

/// Counts the events to change, up to one more than an action changes; and among the oldest pending events, as many as
/// can be read quickly, those that wait for their keys.
const PREVIEW: &str = "
    WITH chosen AS MATERIALIZED (
        SELECT e.status, e.holds_key, e.aggregate_type, e.aggregate_id FROM outbox.events AS e WHERE {condition} LIMIT 10001
    ), held AS (
        SELECT DISTINCT aggregate_type, aggregate_id FROM chosen WHERE holds_key AND aggregate_id IS NOT NULL
    ), oldest AS MATERIALIZED (
        SELECT e.aggregate_type, e.aggregate_id FROM outbox.events AS e
        WHERE e.status = 'PENDING' AND e.available_at IS NULL ORDER BY e.seq LIMIT 10000
    )
    SELECT json_build_object(
        'events', (SELECT least(count(*), 10000) FROM chosen), 'is_more', (SELECT count(*) > 10000 FROM chosen),
        'sent', (SELECT count(*) FROM chosen WHERE status = 'SENT'), 'keys', (SELECT count(*) FROM held),
        'waiting', (SELECT count(*) FROM oldest AS o JOIN held AS h
            ON h.aggregate_id = o.aggregate_id AND h.aggregate_type IS NOT DISTINCT FROM o.aggregate_type),
        'waiting_is_more', (SELECT count(*) = 10000 FROM oldest))::text";

/// An action, and its events.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    /// The ids, as PostgreSQL writes an array.
    ReplayIds(String),
    ReplayFailed(Filter),
    ReleaseIds(String),
}

/// Selects the failed events of one topic with one error.
#[derive(Debug, PartialEq, Eq)]
struct Filter {
    topic: String,
    error: String,
}

impl Action {
    fn read(body: &Value) -> Result<Self, Refusal> {
        let action = body.get("action").and_then(Value::as_str);
        let filter = body.get("filter").ok_or_else(|| Refusal::bad("The request has no filter."))?;
        let text = |name: &str| filter.get(name).and_then(Value::as_str).map(str::to_owned);
        match (action, filter.get("ids").and_then(Value::as_array)) {
            (Some("replay"), Some(ids)) => Ok(Self::ReplayIds(array(ids)?)),
            (Some("release"), Some(ids)) => Ok(Self::ReleaseIds(array(ids)?)),
            (Some("replay"), None) => match (text("topic"), text("error"), text("status").as_deref()) {
                (Some(topic), Some(error), Some("FAILED")) => Ok(Self::ReplayFailed(Filter { topic, error })),
                _ => Err(Refusal::bad("A replay by filter takes a topic, an error, and the status FAILED.")),
            },
            _ => Err(Refusal::bad("There is replay, by ids or by filter, and release, by ids.")),
        }
    }

    /// Returns the statement that counts the events to change, and what waits for them.
    fn preview(&self) -> (String, Vec<String>) {
        let count = |condition: &str| PREVIEW.replace("{condition}", condition);
        match self {
            Self::ReplayIds(ids) => {
                (count("e.id = ANY ($1::text::uuid[]) AND e.status IN ('FAILED', 'SENT')"), vec![ids.clone()])
            }
            Self::ReleaseIds(ids) => {
                (count("e.id = ANY ($1::text::uuid[]) AND e.status = 'FAILED' AND e.holds_key"), vec![ids.clone()])
            }
            Self::ReplayFailed(Filter { topic, error }) => {
                // The page may have cut off the error after 1,000 characters.
                (
                    count("e.status = 'FAILED' AND e.topic = $1 AND e.last_error LIKE $2"),
                    vec![topic.clone(), pattern(error)],
                )
            }
        }
    }

    fn statement(&self, most: u64) -> (&'static str, Vec<String>) {
        match self {
            Self::ReplayIds(ids) => (
                "SELECT to_json(count(*) FILTER (WHERE outbox.replay(id)))::text FROM unnest($1::text::uuid[]) AS id",
                vec![ids.clone()],
            ),
            Self::ReleaseIds(ids) => (
                "SELECT to_json(count(*) FILTER (WHERE outbox.release(id)))::text FROM unnest($1::text::uuid[]) AS id",
                vec![ids.clone()],
            ),
            Self::ReplayFailed(Filter { topic, error }) => (
                "SELECT to_json(outbox.replay_many(topic => $1, error_like => $2, status => 'FAILED', max_events => $3::text::bigint))::text",
                vec![topic.clone(), pattern(error), most.to_string()],
            ),
        }
    }
}

/// Returns the ids as an array. They are parsed as UUIDs, so that nothing else gets into it.
fn array(ids: &[Value]) -> Result<String, Refusal> {
    if ids.len() > MOST_IDS {
        return Err(Refusal::bad(format!("Name {MOST_IDS} events at most.")));
    }
    let ids: Option<Vec<String>> =
        ids.iter().map(|id| id.as_str()?.parse::<uuid::Uuid>().ok().map(|id| id.to_string())).collect();
    ids.map(|ids| format!("{{{}}}", ids.join(","))).ok_or_else(|| Refusal::bad("An id is a UUID."))
}

/// Returns the `LIKE` pattern that matches exactly this error, or everything that begins with it if the page has cut it
/// off.
fn pattern(error: &str) -> String {
    let mut pattern = error.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_");
    if error.chars().count() >= 1000 {
        pattern.push('%');
    }
    pattern
}

fn parse(body: &Bytes) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|_| Refusal::bad("The request is no JSON."))
}

/// Returns how many events the action would change, and how many later events of their keys wait for them.
pub(super) async fn preview(
    State(dashboard): State<Arc<Dashboard>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    dashboard.access.may_act(&headers)?;
    let (sql, arguments) = Action::read(&parse(&body)?)?.preview();
    let arguments: Vec<_> = arguments.iter().map(|argument| Some(argument.as_str())).collect();
    Ok(refusal::json(&dashboard.operator()?.json(&sql, &arguments).await?))
}

/// Runs the action, and returns how many events it has changed.
pub(super) async fn act(
    State(dashboard): State<Arc<Dashboard>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let who = dashboard.access.may_act(&headers)?;
    let body = parse(&body)?;
    let previewed = body.get("events").and_then(Value::as_u64).filter(|events| (1..=MOST).contains(events));
    let most = previewed.ok_or_else(|| Refusal::bad("Say how many events the preview has counted."))?;
    let action = Action::read(&body)?;
    let (sql, arguments) = action.statement(most);
    let arguments: Vec<_> = arguments.iter().map(|argument| Some(argument.as_str())).collect();
    let name = who.name.unwrap_or_default();
    let changed = dashboard.operator()?.act(&name, sql, &arguments).await?;
    info!(target: "relay", name, deed = ?action, events = changed.as_u64(), "an operator has acted in the dashboard");
    Ok(refusal::json(&json!({ "events": changed })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_matched_as_it_is_whatever_it_has_in_it() {
        assert_eq!(pattern("100% of a_queue\\"), r"100\% of a\_queue\\");
        assert_eq!(pattern(&"x".repeat(1000)).chars().last(), Some('%'));
    }

    #[test]
    fn a_preview_counts_up_to_one_more_than_an_action_changes() {
        assert!(PREVIEW.contains(&format!("LIMIT {}", MOST + 1)) && PREVIEW.contains(&format!("> {MOST} FROM chosen")));
    }

    #[test]
    fn only_what_the_page_offers_is_an_action() {
        let read = |text: &str| Action::read(&serde_json::from_str(text).unwrap()).ok();
        let id = "0190163d-8694-739b-aea5-966c26f8ad91";
        assert_eq!(
            read(&format!(r#"{{"action": "release", "filter": {{"ids": ["{id}"]}}}}"#)),
            Some(Action::ReleaseIds(format!("{{{id}}}")))
        );
        for refused in [
            r#"{"action": "replay"}"#,
            r#"{"action": "replay", "filter": {}}"#,
            r#"{"action": "replay", "filter": {"topic": "t", "status": "FAILED"}}"#,
            r#"{"action": "replay", "filter": {"topic": "t", "error": "e", "status": "SENT"}}"#,
            r#"{"action": "release", "filter": {"topic": "t", "error": "e", "status": "FAILED"}}"#,
            r#"{"action": "purge", "filter": {"ids": []}}"#,
            r#"{"action": "replay", "filter": {"ids": ["},{"]}}"#,
            r#"{"action": "replay", "filter": {"ids": [1]}}"#,
        ] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }
}
