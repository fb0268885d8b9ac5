//! Authentication and roles of the dashboard's users.
//!
//! A token identifies a user: in `Authorization: Bearer …` for scripts, or given once by a person, whose browser then
//! has a cookie that no script of the page can read. Without a file of readers' tokens, everybody who reaches a relay
//! that listens on loopback may read.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    body::Bytes,
    extract::{ConnectInfo, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use outbox_service::error::{Kind, RunError};
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    Dashboard,
    refusal::{self, Refusal},
    tokens::Tokens,
    wrong_tokens::WrongTokens,
};
use crate::DashboardConfig;

/// Lifetime of a browser's session.
const SIGNED_IN_FOR: Duration = Duration::from_secs(12 * 3600);

/// Most browser sessions at a time; a new one beyond them ends the oldest.
const MOST_SESSIONS: usize = 1000;

/// Most sessions of one name, so that repeated sign-ins of one user do not sign out others.
const MOST_SESSIONS_OF_A_NAME: usize = 20;

/// Delay of the answer to an unknown token.
const WRONG_TOKEN_DELAY: Duration = Duration::from_millis(500);

/// The reason why nobody can sign in, and what to do about it.
const NO_TOKENS: &str = "it has no tokens, and listens on more than the loopback address; name a file of tokens \
    (dashboard_readers), or listen on 127.0.0.1 (http_listen)";

/// The reason why a forwarded request is not let in, on a dashboard that is open over loopback.
const FORWARDED_WITHOUT_TOKENS: &str = "this request was forwarded by a proxy, and without a token only those who come \
    to the relay's machine themselves may read; name a file of tokens (dashboard_readers)";

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// May read everything but payloads.
    Reader,
    /// May also read payloads, replay and release.
    Operator,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Operator => "operator",
        }
    }
}

/// The user who makes a request.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) role: Role,
    /// The name beside the token; `None` without a token.
    pub(super) name: Option<String>,
    /// The secret that a request must repeat to change something, if a cookie identifies the user: another site cannot
    /// know it.
    csrf: Option<String>,
}

#[derive(Debug)]
struct Session {
    who: Who,
    since: Instant,
}

/// The tokens, and the sessions of users who have signed in.
#[derive(Debug)]
pub(super) struct Access {
    readers: Option<Tokens>,
    operators: Option<Tokens>,
    /// Whether users without a token may read.
    is_open: bool,
    /// Name of the cookie. It contains the port, because browsers send a host's cookies to every port: two relays on a
    /// host must not take each other's.
    cookie: String,
    /// Names under which browsers may reach this host, beside addresses and localhost.
    pub(super) hosts: Vec<String>,
    sessions: Mutex<HashMap<String, Session>>,
    wrong_tokens: Mutex<WrongTokens>,
}

impl Access {
    pub(super) fn new(config: &DashboardConfig, address: SocketAddr) -> Result<Self, RunError> {
        let read = |path: &Option<std::path::PathBuf>| path.as_deref().map(Tokens::read).transpose();
        let readers = read(&config.readers)?;
        let hosts = config.hosts.split(',').map(|host| host.trim().to_lowercase()).filter(|host| !host.is_empty());
        if let Err(error) = getrandom::fill(&mut [0]) {
            return Err(RunError::new(Kind::Internal, "this machine has no random numbers").source(error.to_string()));
        }
        let operators = read(&config.operators)?;
        if let (Some(readers), Some(operators)) = (&readers, &operators)
            && let Some((reader, operator)) = readers.shared_with(operators)
        {
            let what =
                format!("{reader} of dashboard_readers and {operator} of dashboard_operators have the same token");
            return Err(RunError::new(Kind::Usage, what).hint("give each a token of their own"));
        }
        let is_open = readers.is_none() && address.ip().is_loopback();
        if !is_open && readers.is_none() && operators.is_none() {
            warn!(target: "relay", %address, "the dashboard lets nobody in: {NO_TOKENS}");
        }
        Ok(Self {
            is_open,
            readers,
            operators,
            cookie: format!("outbox_{}", address.port()),
            hosts: hosts.collect(),
            sessions: Mutex::default(),
            wrong_tokens: Mutex::default(),
        })
    }

    /// Returns the user of a request; `None` if nobody is let in. A forwarded request needs a token, because its
    /// loopback address is the proxy's.
    pub(super) fn who(&self, headers: &HeaderMap) -> Option<Who> {
        if let Some(token) = bearer(headers) {
            return self.owner(token);
        }
        let session = cookie(headers, &self.cookie).and_then(|id| {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions
                .get(id)
                .filter(|session| session.since.elapsed() < SIGNED_IN_FOR)
                .map(|session| session.who.clone())
        });
        session.or((self.is_open && !is_forwarded(headers)).then_some(Who {
            role: Role::Reader,
            name: None,
            csrf: None,
        }))
    }

    /// Returns the user of a request, if they have at least this role.
    pub(super) fn at_least(&self, role: Role, headers: &HeaderMap) -> Result<Who, Refusal> {
        let who = self.who(headers).ok_or_else(|| {
            let closed = self.closed().map(|why| format!("Nobody is let in: {why}."));
            Refusal::new(StatusCode::UNAUTHORIZED, closed.unwrap_or_else(|| "Sign in with a token.".to_owned()))
        })?;
        if who.role < role {
            return Err(Refusal::forbidden("That takes an operator's token."));
        }
        Ok(who)
    }

    /// Returns the user of a request that changes something, if they are an operator and the request has the secret of
    /// their session.
    pub(super) fn may_act(&self, headers: &HeaderMap) -> Result<Who, Refusal> {
        let who = self.at_least(Role::Operator, headers)?;
        let repeated = headers.get("x-outbox-csrf").and_then(|value| value.to_str().ok());
        if who.csrf.is_some() && who.csrf.as_deref() != repeated {
            return Err(Refusal::forbidden("This request does not come from the dashboard's page. Load it again."));
        }
        Ok(who)
    }

    /// Returns why nobody can sign in; `None` if a token lets somebody in.
    fn closed(&self) -> Option<&'static str> {
        let has_tokens = self.readers.is_some() || self.operators.is_some();
        (!has_tokens).then_some(if self.is_open { FORWARDED_WITHOUT_TOKENS } else { NO_TOKENS })
    }

    fn owner(&self, token: &str) -> Option<Who> {
        let named = |tokens: &Option<Tokens>, role| {
            let name = tokens.as_ref()?.name_of(token)?.to_owned();
            Some(Who { role, name: Some(name), csrf: None })
        };
        named(&self.operators, Role::Operator).or_else(|| named(&self.readers, Role::Reader))
    }

    /// Whether the request shows an unknown token.
    pub(super) fn shows_a_wrong_token(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|token| self.owner(token).is_none())
    }

    /// Delays a request with an unknown token, and logs it at most once a minute; no other request waits.
    pub(super) async fn slow_down(&self, headers: HeaderMap, peer: Option<SocketAddr>) {
        let now = Instant::now();
        let times = self.wrong_tokens.lock().unwrap_or_else(PoisonError::into_inner).count(now);
        if let Some(times) = times {
            let peer = peer.map(|peer| peer.to_string());
            let forwarded_for = headers.get("x-forwarded-for").and_then(|value| value.to_str().ok());
            let forwarded_for = forwarded_for.map(|text| text.chars().take(100).collect::<String>());
            warn!(
                target: "relay", peer, forwarded_for, times,
                "somebody tried to sign in to the dashboard with an unknown token"
            );
        }
        sleep(WRONG_TOKEN_DELAY).await;
    }

    fn begin(&self, who: Who) -> Result<String, Refusal> {
        let id = random()?;
        let who = Who { csrf: Some(random()?), ..who };
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.since.elapsed() < SIGNED_IN_FOR);
        let of_name = sessions.values().filter(|session| session.who.name == who.name).count();
        if of_name >= MOST_SESSIONS_OF_A_NAME {
            remove_oldest(&mut sessions, |session| session.who.name == who.name);
        }
        if sessions.len() >= MOST_SESSIONS {
            remove_oldest(&mut sessions, |_| true);
        }
        sessions.insert(id.clone(), Session { who, since: Instant::now() });
        Ok(id)
    }

    fn end(&self, id: &str) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// Returns what the page needs to know of its user.
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
    let id = access.begin(who)?;
    // The cookie has no Path: the browser then uses the page's own path, even behind a proxy that has rewritten it.
    let cookie = set_cookie(&headers, &access.cookie, &id, SIGNED_IN_FOR.as_secs());
    Ok(([(header::SET_COOKIE, cookie)], refusal::json(&json!({}))).into_response())
}

/// Signs out: ends the session and removes the cookie.
pub(super) async fn sign_out(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Response {
    let access = &dashboard.access;
    if let Some(id) = cookie(&headers, &access.cookie) {
        access.end(id);
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

/// Whether a proxy has forwarded the request. Proxies name their client in headers that end with `ip` or `addr`, or
/// contain `forwarded`; browsers and scripts send none of these by themselves.
fn is_forwarded(headers: &HeaderMap) -> bool {
    let says_so = |name: &str| {
        ["via", "cdn-loop", "client", "x-client", "x-remote", "x-envoy-external-address", "x-amzn-trace-id"]
            .contains(&name)
            || name.contains("forwarded")
            || name.starts_with("cf-")
            || ["-ip", "clientip", "-addr"].iter().any(|end| name.ends_with(end))
    };
    headers.keys().any(|name| says_so(name.as_str()))
}

fn remove_oldest(sessions: &mut HashMap<String, Session>, among: impl Fn(&Session) -> bool) {
    let those = sessions.iter().filter(|(_, session)| among(session));
    let oldest = those.min_by_key(|(_, session)| session.since).map(|(id, _)| id.clone());
    oldest.and_then(|id| sessions.remove(&id));
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether the request has a token in its header, which no other site can make a browser send.
pub(super) fn has_token(headers: &HeaderMap) -> bool {
    bearer(headers).is_some()
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|line| line.split(';')).find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Returns 256 random bits, in hexadecimal.
fn random() -> Result<String, Refusal> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|_| Refusal::unavailable("This machine has no random numbers."))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
