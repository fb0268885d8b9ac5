//! Signing in with a token and out again, for browsers.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    body::Bytes,
    extract::{ConnectInfo, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tracing::info;

use super::{
    Dashboard,
    access::cookie,
    refusal::{self, Refusal},
    sessions::SIGNED_IN_FOR,
    who::Role,
};

/// Returns what the page needs to know of its user, and whose events it shows.
pub(super) async fn show(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Response {
    let access = &dashboard.access;
    let who = access.who(&headers);
    let is_operator = who.as_ref().is_some_and(|who| who.role == Role::Operator);
    refusal::json(&json!({
        "role": who.as_ref().map(|who| who.role.word()),
        "name": who.as_ref().and_then(|who| who.name.as_deref()),
        "csrf": who.as_ref().and_then(|who| who.csrf.as_deref()),
        "can_act": is_operator && dashboard.operator.is_some(),
        "closed": access.closed(),
        "database": who.as_ref().map(|_| dashboard.database_url.database()),
        "instance": who.as_ref().and(dashboard.instance_name.as_deref()),
    }))
}

/// Signs in with a token, and sets a cookie for it.
pub(super) async fn sign_in(
    State(dashboard): State<Arc<Dashboard>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let body: Value = serde_json::from_slice(&body).map_err(|_| Refusal::bad("The request is no JSON."))?;
    let access = &dashboard.access;
    let Some(who) = body.get("token").and_then(Value::as_str).and_then(|token| access.owner(token)) else {
        access.slow_down(headers, Some(peer)).await;
        return Err(Refusal::forbidden("Nobody has that token."));
    };
    info!(target: "relay", name = who.name, role = who.role.word(), "signed in to the dashboard");
    let id = access.sessions.begin(who)?;
    // The cookie has no Path: the browser then uses the page's own path, even behind a proxy that has rewritten it.
    let cookie = set_cookie(&headers, &access.cookie, &id, SIGNED_IN_FOR.as_secs());
    Ok(([(header::SET_COOKIE, cookie)], refusal::json(&json!({}))).into_response())
}

/// Signs out: ends the session and removes the cookie.
pub(super) async fn sign_out(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Response {
    let access = &dashboard.access;
    if let Some(id) = cookie(&headers, &access.cookie) {
        access.sessions.end(id);
    }
    ([(header::SET_COOKIE, set_cookie(&headers, &access.cookie, "", 0))], refusal::json(&json!({}))).into_response()
}

/// Returns the header that sets a cookie. The cookie is restricted to TLS if a proxy says that the request came over
/// TLS.
fn set_cookie(headers: &HeaderMap, name: &str, value: &str, seconds: u64) -> String {
    let scheme = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_tls = scheme.split(',').next().is_some_and(|first| first.trim().eq_ignore_ascii_case("https"));
    let secure = if is_tls { "; Secure" } else { "" };
    format!("{name}={value}; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}
