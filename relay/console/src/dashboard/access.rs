//! Authentication and roles of the dashboard's users.
//!
//! A token identifies a user: in `Authorization: Bearer …` for scripts, or given once by a person, whose browser then
//! has a cookie that no script of the page can read. Without a file of readers' tokens, everybody who reaches a relay
//! that listens on loopback may read.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, StatusCode, header};
use outbox_service::error::{Kind, RunError};
use tokio::time::sleep;
use tracing::warn;

use super::{
    refusal::Refusal,
    sessions::Sessions,
    tokens::Tokens,
    who::{Role, Who},
    wrong_tokens::WrongTokens,
};
use crate::DashboardConfig;

/// Delay of the answer to an unknown token.
const WRONG_TOKEN_DELAY: Duration = Duration::from_millis(500);

/// The reason why nobody can sign in, and what to do about it.
const NO_TOKENS: &str = "it has no tokens, and listens on more than the loopback address; name a file of tokens \
    (dashboard_readers), or listen on 127.0.0.1 (http_listen)";

/// The reason why a forwarded request is not let in, on a dashboard that is open over loopback.
const FORWARDED_WITHOUT_TOKENS: &str = "this request was forwarded by a proxy, and without a token only those who come \
    to the relay's machine themselves may read; name a file of tokens (dashboard_readers)";

/// The tokens, and the sessions of users who have signed in.
#[derive(Debug)]
pub(super) struct Access {
    readers: Option<Tokens>,
    operators: Option<Tokens>,
    /// Whether users without a token may read.
    is_open: bool,
    /// Name of the cookie. It contains the port, because browsers send a host's cookies to every port: two relays on a
    /// host must not take each other's.
    pub(super) cookie: String,
    /// Names under which browsers may reach this host, beside addresses and localhost.
    pub(super) hosts: Vec<String>,
    pub(super) sessions: Sessions,
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
            sessions: Sessions::default(),
            wrong_tokens: Mutex::default(),
        })
    }

    /// Returns the user of a request; `None` if nobody is let in. A forwarded request needs a token, because its
    /// loopback address is the proxy's.
    pub(super) fn who(&self, headers: &HeaderMap) -> Option<Who> {
        if let Some(token) = bearer(headers) {
            return self.owner(token);
        }
        let session = cookie(headers, &self.cookie).and_then(|id| self.sessions.who(id));
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
    pub(super) fn closed(&self) -> Option<&'static str> {
        let has_tokens = self.readers.is_some() || self.operators.is_some();
        (!has_tokens).then_some(if self.is_open { FORWARDED_WITHOUT_TOKENS } else { NO_TOKENS })
    }

    pub(super) fn owner(&self, token: &str) -> Option<Who> {
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

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether the request has a token in its header, which no other site can make a browser send.
pub(super) fn has_token(headers: &HeaderMap) -> bool {
    bearer(headers).is_some()
}

pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|line| line.split(';')).find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}
