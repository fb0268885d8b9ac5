//! The address of a collector of spans. A relay built without OpenTelemetry knows the setting too, and refuses it with
//! the command that builds a relay with OpenTelemetry.

#[cfg(feature = "otel")]
pub use self::with::OtlpEndpoint;
#[cfg(not(feature = "otel"))]
pub use self::without::OtlpEndpoint;

#[cfg(feature = "otel")]
mod with {
    use std::{fmt, str::FromStr};

    use hyper::{Uri, http::uri::Scheme};

    /// A collector's address: `http://host:4318`, or `https://…` for TLS, with a path if the collector is behind one.
    #[derive(Clone, PartialEq, Eq)]
    pub struct OtlpEndpoint(Uri);

    /// What is wrong with an address. The texts repeat no part of the address, which may contain a secret by mistake.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum BadEndpoint {
        /// The scheme is neither `http` nor `https`.
        #[error("it does not begin with http:// or https://")]
        Scheme,
        /// The address has no host, or no valid port.
        #[error("it is not a URL")]
        NoUrl,
        /// The address contains a user or a password. The collector would get them in clear text; a key belongs in a
        /// header.
        #[error("a user or a password have no place in it")]
        Credentials,
        /// The address has a query behind its path.
        #[error("a query has no place in it")]
        Query,
    }

    impl OtlpEndpoint {
        /// Whether the collector uses TLS.
        pub fn is_tls(&self) -> bool {
            self.0.scheme() == Some(&Scheme::HTTPS)
        }
    }

    impl FromStr for OtlpEndpoint {
        type Err = BadEndpoint;

        fn from_str(text: &str) -> Result<Self, BadEndpoint> {
            let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
            if !matches!(scheme.as_deref(), Some("http" | "https")) {
                return Err(BadEndpoint::Scheme);
            }
            let uri: Uri = text.parse().map_err(|_| BadEndpoint::NoUrl)?;
            let authority = uri.authority().ok_or(BadEndpoint::NoUrl)?;
            if authority.as_str().contains('@') {
                return Err(BadEndpoint::Credentials);
            }
            if uri.query().is_some() {
                return Err(BadEndpoint::Query);
            }
            // An authority without credentials is a host, or a host and a port.
            let has_port = authority.as_str() != authority.host();
            if authority.host().is_empty() || has_port && authority.port_u16().is_none() {
                return Err(BadEndpoint::NoUrl);
            }
            Ok(Self(uri))
        }
    }

    /// The address without a slash at its end.
    impl fmt::Display for OtlpEndpoint {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0.to_string().trim_end_matches('/'))
        }
    }

    impl fmt::Debug for OtlpEndpoint {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            fmt::Display::fmt(self, f)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_address_leads_to_a_collector_by_tls_or_without() {
            let read =
                |text: &str| text.parse().map(|endpoint: OtlpEndpoint| (endpoint.to_string(), endpoint.is_tls()));
            let at = |text: &str, is_tls| Ok((text.to_owned(), is_tls));
            assert_eq!(read("http://localhost:4318"), at("http://localhost:4318", false));
            assert_eq!(read("http://localhost:4318/"), at("http://localhost:4318", false));
            assert_eq!(read("https://otlp.example/otlp/"), at("https://otlp.example/otlp", true));
            assert_eq!(read("HTTP://[::1]:4318"), at("http://[::1]:4318", false));
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
                assert_eq!(text.parse::<OtlpEndpoint>(), Err(why), "{text:?}");
                assert!(!why.to_string().contains("hunter2"));
            }
        }
    }
}

#[cfg(not(feature = "otel"))]
mod without {
    use std::{fmt, str::FromStr};

    /// This relay was built without OpenTelemetry.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "this relay was built without OpenTelemetry: leave it out, or build with \
         cargo build --release --package outbox-relay --features otel"
    )]
    pub struct NotBuilt;

    /// An address that this relay cannot have, so the type has no value.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum OtlpEndpoint {}

    impl FromStr for OtlpEndpoint {
        type Err = NotBuilt;

        fn from_str(_: &str) -> Result<Self, NotBuilt> {
            Err(NotBuilt)
        }
    }

    impl fmt::Display for OtlpEndpoint {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {}
        }
    }
}
