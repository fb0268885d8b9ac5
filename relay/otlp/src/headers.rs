//! Headers that a collector asks for, such as a key, in the form of `OTEL_EXPORTER_OTLP_HEADERS`. Pure.

use std::{fmt, str::FromStr};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

/// Headers of each request: `name=value` pairs with commas between, values percent-encoded. Their values are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(pub(crate) HeaderMap);

/// They are not in that form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not name=value pairs with commas between")]
pub struct BadHeaders;

impl FromStr for Headers {
    type Err = BadHeaders;

    fn from_str(text: &str) -> Result<Self, BadHeaders> {
        let mut headers = HeaderMap::new();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(BadHeaders)?;
            let name: HeaderName = name.trim().parse().map_err(|_| BadHeaders)?;
            let value: Vec<u8> = percent_decode_str(value.trim()).collect();
            let mut value = HeaderValue::from_bytes(&value).map_err(|_| BadHeaders)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self(headers))
    }
}

/// The names alone.
impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.keys().map(HeaderName::as_str).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_their_values_not_shown() {
        let headers: Headers = "authorization=Bearer%20hunter2, x-tenant = a=b,".parse().unwrap();
        assert_eq!(headers.0["authorization"], "Bearer hunter2");
        assert_eq!(headers.0["x-tenant"], "a=b");
        assert_eq!(
            (headers.to_string(), format!("{headers:?}")),
            ("authorization, x-tenant".into(), "authorization, x-tenant".into())
        );
        for bad in ["hunter2", "a b=c", "=hunter2", "a=%0d%0ahunter2: x"] {
            assert_eq!(bad.parse::<Headers>(), Err(BadHeaders), "{bad}");
        }
    }
}
