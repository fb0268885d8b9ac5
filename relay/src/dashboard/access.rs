//! Who somebody is, and what they may do.
//!
//! A token says it: in `Authorization: Bearer …` for scripts, or given once by a person, whose browser then has a cookie that no script
//! of the page can read. Without a file of readers' tokens, whoever reaches the relay over loopback may read.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{
    Dashboard,
    refusal::{self, Refusal},
    tokens::Tokens,
};
use crate::{
    config::Config,
    error::{Kind, RunError},
};

/// How long somebody stays signed in.
const SIGNED_IN_FOR: Duration = Duration::from_secs(12 * 3600);

/// Most people who are signed in at a time; one more, and the one who has been for longest has to sign in again.
const MOST_SESSIONS: usize = 1000;

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Look, but not at payloads.
    Reader,
    /// Everything: look at payloads, replay, release.
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

/// Somebody who asks.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) role: Role,
    /// The name beside the token; none without a token.
    pub(super) name: Option<String>,
    /// What a request that changes something has to repeat, if a cookie says who it is: another site cannot know it.
    csrf: Option<String>,
}

#[derive(Debug)]
struct Session {
    who: Who,
    since: Instant,
}

/// The tokens, and who has shown one.
#[derive(Debug)]
pub(super) struct Access {
    readers: Option<Tokens>,
    operators: Option<Tokens>,
    /// Whether those without a token may read.
    is_open: bool,
    /// Cookies are the host's, whatever the port: two relays on a host must not take each other's.
    cookie: String,
    /// Names by which browsers may call this host, beside addresses and localhost.
    pub(super) hosts: Vec<String>,
    sessions: Mutex<HashMap<String, Session>>,
}

impl Access {
    pub(super) fn new(config: &Config, address: SocketAddr) -> Result<Self, RunError> {
        let read = |path: &Option<std::path::PathBuf>| path.as_deref().map(Tokens::read).transpose();
        let readers = read(&config.dashboard_readers.0)?;
        let hosts =
            config.dashboard_hosts.split(',').map(|host| host.trim().to_lowercase()).filter(|host| !host.is_empty());
        if let Err(error) = getrandom::fill(&mut [0]) {
            return Err(RunError::new(Kind::Internal, "this machine has no random numbers").source(error.to_string()));
        }
        Ok(Self {
            is_open: readers.is_none() && address.ip().is_loopback(),
            readers,
            operators: read(&config.dashboard_operators.0)?,
            cookie: format!("outbox_{}", address.port()),
            hosts: hosts.collect(),
            sessions: Mutex::default(),
        })
    }

    /// Who asks, if they may at all. Behind a proxy nobody is let in without a token: loopback is the proxy's.
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
        let is_forwarded =
            ["forwarded", "x-forwarded-for", "x-forwarded-host", "via"].iter().any(|name| headers.contains_key(*name));
        session.or((self.is_open && !is_forwarded).then_some(Who { role: Role::Reader, name: None, csrf: None }))
    }

    /// Who asks, if they may do what this role may.
    pub(super) fn at_least(&self, role: Role, headers: &HeaderMap) -> Result<Who, Refusal> {
        let who = self.who(headers).ok_or_else(|| Refusal::new(StatusCode::UNAUTHORIZED, "Sign in with a token."))?;
        if who.role < role {
            return Err(Refusal::forbidden("That takes an operator's token."));
        }
        Ok(who)
    }

    /// As [`at_least`](Self::at_least) an operator, for a request that changes something.
    pub(super) fn may_act(&self, headers: &HeaderMap) -> Result<Who, Refusal> {
        let who = self.at_least(Role::Operator, headers)?;
        let repeated = headers.get("x-outbox-csrf").and_then(|value| value.to_str().ok());
        if who.csrf.is_some() && who.csrf.as_deref() != repeated {
            return Err(Refusal::forbidden("This request does not come from the dashboard's page. Load it again."));
        }
        Ok(who)
    }

    fn owner(&self, token: &str) -> Option<Who> {
        let named = |tokens: &Option<Tokens>, role| {
            let name = tokens.as_ref()?.name_of(token)?.to_owned();
            Some(Who { role, name: Some(name), csrf: None })
        };
        named(&self.operators, Role::Operator).or_else(|| named(&self.readers, Role::Reader))
    }

    fn begin(&self, who: Who) -> Result<String, Refusal> {
        let id = random()?;
        let who = Who { csrf: Some(random()?), ..who };
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.since.elapsed() < SIGNED_IN_FOR);
        if sessions.len() >= MOST_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.since).map(|(id, _)| id.clone());
            oldest.and_then(|id| sessions.remove(&id));
        }
        sessions.insert(id.clone(), Session { who, since: Instant::now() });
        Ok(id)
    }

    fn end(&self, id: &str) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// What the page needs to know of whoever looks at it.
pub(super) async fn show(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Response {
    let access = &dashboard.access;
    let who = access.who(&headers);
    let is_operator = who.as_ref().is_some_and(|who| who.role == Role::Operator);
    refusal::json(&json!({
        "role": who.as_ref().map(|who| who.role.word()),
        "name": who.as_ref().and_then(|who| who.name.as_deref()),
        "csrf": who.as_ref().and_then(|who| who.csrf.as_deref()),
        "can_act": is_operator && dashboard.operator.is_some(),
        "has_tokens": access.readers.is_some() || access.operators.is_some(),
    }))
}

/// Takes a token, and gives a cookie for it.
pub(super) async fn sign_in(State(dashboard): State<Arc<Dashboard>>, body: Bytes) -> Result<Response, Refusal> {
    let body: Value = serde_json::from_slice(&body).map_err(|_| Refusal::bad("The request is no JSON."))?;
    let access = &dashboard.access;
    let Some(who) = body.get("token").and_then(Value::as_str).and_then(|token| access.owner(token)) else {
        warn!(target: "relay", "somebody tried to sign in to the dashboard with a token that nobody has");
        return Err(Refusal::forbidden("Nobody has that token."));
    };
    info!(target: "relay", name = who.name, role = who.role.word(), "signed in to the dashboard");
    let id = access.begin(who)?;
    // No Path: the browser takes the one below which the page is, whatever a proxy has made of it.
    let cookie = format!("{}={id}; HttpOnly; SameSite=Strict; Max-Age={}", access.cookie, SIGNED_IN_FOR.as_secs());
    Ok(([(header::SET_COOKIE, cookie)], refusal::json(&json!({}))).into_response())
}

/// Forgets the cookie.
pub(super) async fn sign_out(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Response {
    let access = &dashboard.access;
    if let Some(id) = cookie(&headers, &access.cookie) {
        access.end(id);
    }
    (
        [(header::SET_COOKIE, format!("{}=; HttpOnly; SameSite=Strict; Max-Age=0", access.cookie))],
        refusal::json(&json!({})),
    )
        .into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// Whether a request says by itself who it is, which no other site can make a browser do.
pub(super) fn has_token(headers: &HeaderMap) -> bool {
    bearer(headers).is_some()
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|line| line.split(';')).find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// 256 bits that nobody can guess, in hexadecimal.
fn random() -> Result<String, Refusal> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|_| Refusal::unavailable("This machine has no random numbers."))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
