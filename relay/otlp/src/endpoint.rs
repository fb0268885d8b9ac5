//! Where the collector is. Pure.

use std::{fmt, str::FromStr};

use hyper::Uri;

/// Where a collector takes traces, below the address that is configured for it.
const TRACES: &str = "/v1/traces";

/// A collector's address: `http://host:4318`, or `https://…` for TLS, with a path if the collector is behind one.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
    /// A name, or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As the header `Host` has it.
    pub(crate) authority: String,
    /// Without a slash at its end; often empty.
    base: String,
}

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// It is not a URL of HTTP.
    #[error("it does not begin with http:// or https://")]
    Scheme,
    /// It has no host.
    #[error("it is not a URL")]
    NoUrl,
    /// What would be sent in clear text to whoever answers belongs into a header.
    #[error("a user or a password have no place in it")]
    Credentials,
    /// It goes on behind the path.
    #[error("a query has no place in it")]
    Query,
}

impl Endpoint {
    /// Where to send traces.
    pub(crate) fn path(&self) -> String {
        format!("{}{TRACES}", self.base)
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let tls = match text.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => false,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => true,
            _ => return Err(BadEndpoint::Scheme),
        };
        let uri: Uri = text.parse().map_err(|_| BadEndpoint::NoUrl)?;
        let authority = uri.authority().filter(|authority| !authority.host().is_empty()).ok_or(BadEndpoint::NoUrl)?;
        if authority.as_str().contains('@') {
            return Err(BadEndpoint::Credentials);
        }
        if uri.query().is_some() {
            return Err(BadEndpoint::Query);
        }
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if has_port(authority.as_str()) => return Err(BadEndpoint::NoUrl),
            None if tls => 443,
            None => 80,
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let base = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { tls, host, port, authority: authority.as_str().to_owned(), base })
    }
}

/// Whether there is something behind the host: a colon, but not one within the brackets of an address.
fn has_port(authority: &str) -> bool {
    authority.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tls, authority, base, .. } = self;
        write!(f, "http{}://{authority}{base}", if *tls { "s" } else { "" })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, u16, bool, String), BadEndpoint> {
        text.parse().map(|endpoint: Endpoint| {
            let path = endpoint.path();
            (endpoint.host, endpoint.port, endpoint.tls, path)
        })
    }

    #[test]
    fn an_address_leads_to_a_host_a_port_and_the_path_for_traces() {
        let there = |host: &str, port, tls, path: &str| Ok((host.to_owned(), port, tls, path.to_owned()));
        assert_eq!(read("http://localhost:4318"), there("localhost", 4318, false, "/v1/traces"));
        assert_eq!(read("http://localhost:4318/"), there("localhost", 4318, false, "/v1/traces"));
        assert_eq!(read("https://otlp.example/otlp/"), there("otlp.example", 443, true, "/otlp/v1/traces"));
        assert_eq!(read("HTTP://[::1]:4318"), there("::1", 4318, false, "/v1/traces"));
    }

    #[test]
    fn what_is_no_address_of_a_collector_is_refused_without_being_repeated() {
        use BadEndpoint::{Credentials, NoUrl, Query, Scheme};
        for (text, why) in [
            ("", Scheme),
            ("localhost:4318", Scheme),
            ("grpc://localhost:4317", Scheme),
            ("http://", NoUrl),
            ("http://:4318", NoUrl),
            ("http://local host", NoUrl),
            ("http://localhost:99999", NoUrl),
            ("http://user:hunter2@localhost:4318", Credentials),
            ("http://localhost:4318/?key=hunter2", Query),
        ] {
            assert_eq!(read(text), Err(why), "{text:?}");
            assert!(!why.to_string().contains("hunter2"));
        }
    }
}
