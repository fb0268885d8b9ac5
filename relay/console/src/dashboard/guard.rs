//! Guards every request by its Host and origin, and adds headers that restrict the browser to every answer.
//!
//! A page of another site may send requests to this relay through a browser, and may point its own name to this relay's
//! address (DNS rebinding). So the name in Host must be a known one, requests from other sites are refused, and
//! requests that change something also need [a secret](super::access).

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{Dashboard, access, refusal::Refusal};

/// Largest body of a request, in bytes.
pub(super) const LARGEST_BODY: usize = 256 * 1024;

/// Allows scripts, styles and connections of the relay alone, nothing inline and no frame around the page. Text must
/// not become the source of a script or a page either.
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

/// Refuses forbidden requests, and adds the headers to every answer.
pub(super) async fn check(State(dashboard): State<Arc<Dashboard>>, request: Request, next: Next) -> Response {
    let mut response = match allow(&dashboard.access.hosts, request.method(), request.uri(), request.headers()) {
        Ok(()) => {
            if dashboard.access.shows_a_wrong_token(request.headers()) {
                let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0);
                dashboard.access.slow_down(request.headers().clone(), peer).await;
            }
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn allow(hosts: &[String], method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let is_one = headers.get_all(header::HOST).iter().count() == 1;
    // A request may name its host twice: in the header, and in its target.
    if !is_one || !is_ours(host, hosts) || uri.authority().is_some_and(|other| !is_ours(other.as_str(), hosts)) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "This relay does not go by that name. If it should, add the name to dashboard_hosts.",
        ));
    }
    let is_change = method != Method::GET && method != Method::HEAD;
    if access::has_token(headers) || !(is_change || uri.path().contains("/api/")) {
        return Ok(());
    }
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    let is_same_site = match (text(HeaderName::from_static("sec-fetch-site")), origin) {
        (Some(site), _) => site == "same-origin" || (site == "none" && !is_change),
        (None, Some(origin)) => origin == host || is_named(origin, hosts),
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

/// Returns the host, if the text is nothing but a host and perhaps a port.
fn host_name(host: &str) -> Option<&str> {
    let name_end = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let (name, port) = host.split_at_checked(name_end)?;
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// Whether the host is this relay's. Any address is, because only a name can be pointed to another address behind the
/// browser's back.
fn is_ours(host: &str, hosts: &[String]) -> bool {
    let is_address = |name: &str| match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    };
    host_name(host).is_some_and(|name| is_address(name) || name.eq_ignore_ascii_case("localhost"))
        || is_named(host, hosts)
}

fn is_named(host: &str, hosts: &[String]) -> bool {
    host_name(host).is_some_and(|name| hosts.iter().any(|host| host.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, path: &str, headers: &[(&'static str, &str)]) -> Result<(), u16> {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name, value);
        }
        allow(&["relay.example".to_owned()], &method, &path.parse().unwrap(), &all)
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
            "[::1].evil.example",
            "[::1]evil",
            "[127.0.0.1]",
            "[relay.example]",
            "::1",
            "localhost:",
            "localhost:abc",
            "localhost:+1",
            "localhost:65536",
            "localhost:9090, evil.example",
            "localhost, evil.example",
            "127.0.0.1:9090:1",
            "127.0.0.1:9090@evil.example",
            "user@localhost",
            " localhost",
        ] {
            assert_eq!(asked(Method::GET, "/", &[("host", host)]), Err(421), "{host}");
        }
        assert_eq!(asked(Method::GET, "/", &[]), Err(421));
        assert_eq!(asked(Method::GET, "/", &[("host", "localhost"), ("host", "localhost")]), Err(421), "twice");
    }

    #[test]
    fn a_host_before_the_path_must_be_ours_too() {
        let host = [("host", "localhost:9090")];
        assert_eq!(asked(Method::GET, "http://localhost:9090/api/events", &host), Ok(()));
        for other in ["http://evil.example/api/events", "http://localhost@evil.example/", "http://x@localhost/"] {
            assert_eq!(asked(Method::GET, other, &host), Err(421), "{other}");
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
