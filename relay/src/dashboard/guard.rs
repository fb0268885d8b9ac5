//! Who may ask at all, and what each answer forbids the browser.
//!
//! A page of another site may make a browser ask this relay, and may give its own name this relay's address (DNS rebinding). So the name
//! in Host must be one that this relay is known by, other sites' requests are refused, and what changes something needs
//! [a secret](super::access) as well.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{Dashboard, access, refusal::Refusal};

/// Most bytes of a request's body.
pub(super) const LARGEST_BODY: usize = 256 * 1024;

/// No script, style or connection but the relay's own, nothing inline, no frame around it; text that is taken for a script's or a
/// page's source is refused, too.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Refuses what must not be asked, and adds the headers to whatever is answered.
pub(super) async fn check(State(dashboard): State<Arc<Dashboard>>, request: Request, next: Next) -> Response {
    let mut response = match allow(&dashboard.access.hosts, request.method(), request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn allow(hosts: &[String], method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    if !is_ours(host_name(host), hosts) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "This relay does not go by that name. If it should, add the name to dashboard_hosts.",
        ));
    }
    let is_change = method != Method::GET && method != Method::HEAD;
    if access::has_token(headers) || !(is_change || path.contains("/api/")) {
        return Ok(());
    }
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    let is_same_site = match (text(HeaderName::from_static("sec-fetch-site")), origin) {
        (Some(site), _) => site == "same-origin" || (site == "none" && !is_change),
        (None, Some(origin)) => origin == host || is_named(host_name(origin), hosts),
        (None, None) => !is_change,
    };
    if !is_same_site {
        return Err(Refusal::forbidden("This request comes from another site."));
    }
    let is_json = text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    if is_change && !is_json {
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The request must be application/json."));
    }
    Ok(())
}

/// Without the port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

/// An address is safe: only a name can be given another address behind the browser's back.
fn is_ours(name: &str, hosts: &[String]) -> bool {
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || is_named(name, hosts)
}

fn is_named(name: &str, hosts: &[String]) -> bool {
    hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, path: &str, headers: &[(&'static str, &str)]) -> Result<(), u16> {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
        allow(&["relay.example".to_owned()], &method, path, &headers.collect())
            .map_err(|refusal| refusal.into_response().status().as_u16())
    }

    #[test]
    fn only_names_of_this_relay_and_addresses_are_answered() {
        for host in [
            "localhost",
            "localhost:9090",
            "LOCALHOST",
            "127.0.0.1:9090",
            "10.0.0.7",
            "[::1]:9090",
            "relay.example",
            "Relay.Example:443",
        ] {
            assert_eq!(asked(Method::GET, "/", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "relay.example.evil.example",
            "[evil",
        ] {
            assert_eq!(asked(Method::GET, "/", &[("host", host)]), Err(421), "{host}");
        }
    }

    #[test]
    fn another_site_may_neither_read_nor_change() {
        let json = ("content-type", "application/json");
        let host = ("host", "localhost:9090");
        for (headers, reads, changes) in [
            (vec![("sec-fetch-site", "same-origin")], Ok(()), Ok(())),
            (vec![("sec-fetch-site", "none")], Ok(()), Err(403)),
            (vec![("sec-fetch-site", "same-site")], Err(403), Err(403)),
            (vec![("sec-fetch-site", "cross-site"), ("origin", "http://localhost:9090")], Err(403), Err(403)),
            (vec![("origin", "http://localhost:9090")], Ok(()), Ok(())),
            (vec![("origin", "http://localhost:1")], Err(403), Err(403)),
            (vec![("origin", "https://relay.example")], Ok(()), Ok(())),
            (vec![("origin", "null")], Ok(()), Err(403)),
            (vec![], Ok(()), Err(403)),
            (vec![("authorization", "Bearer x")], Ok(()), Ok(())),
        ] {
            let all = [vec![host, json], headers].concat();
            assert_eq!(asked(Method::GET, "/api/events", &all), reads, "{all:?}");
            assert_eq!(asked(Method::POST, "/api/act", &all), changes, "{all:?}");
        }
        assert_eq!(asked(Method::GET, "/", &[host, ("sec-fetch-site", "cross-site")]), Ok(()), "a link to the page");
        assert_eq!(
            asked(Method::POST, "/api/act", &[host, ("sec-fetch-site", "same-origin"), ("content-type", "text/plain")]),
            Err(415)
        );
    }
}
