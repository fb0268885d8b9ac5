//! The broker's address, as RabbitMQ writes it: <https://www.rabbitmq.com/docs/uri-spec> and
//! <https://www.rabbitmq.com/docs/uri-query-parameters>.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt, path::PathBuf, str::FromStr, time::Duration};

use client_socket::{Host, Identity, InvalidPart, Roots, TlsOptions, Verification, decode, encode};

use crate::protocol::wire::SHORT_STRING_MAX;

/// Where the broker's nodes are and who logs in, such as `amqp://app:secret@a:5672,b,[::1]:5673/shop`. `Display` and
/// `Debug` show no password.
#[derive(Clone, PartialEq, Eq)]
pub struct AmqpUrl {
    /// The nodes; at least one.
    pub(crate) hosts: Vec<Host>,
    pub(crate) vhost: String,
    pub(crate) user: String,
    pub(crate) password: String,
    /// `None` for `amqp`, settings for `amqps`.
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) mechanism: Mechanism,
    /// Interval of heartbeats in seconds; 0 turns them off.
    pub(crate) heartbeat: Option<u16>,
    /// Time limit of an attempt to connect, instead of the configured one.
    pub(crate) connection_timeout: Option<Duration>,
    /// Longest frame in bytes; 0 leaves it to the broker.
    pub(crate) frame_max: Option<u32>,
}

/// The PEM files that TLS needs, and the name that it checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Authorities to trust; `None`: the machine's.
    pub(crate) ca: Option<PathBuf>,
    /// The client's own certificate chain.
    pub(crate) certificate: Option<PathBuf>,
    /// The key of that certificate.
    pub(crate) key: Option<PathBuf>,
    /// The name that the server's certificate must have; `None`: the host.
    pub(crate) server_name: Option<String>,
}

impl TlsFiles {
    pub(crate) fn options(&self) -> TlsOptions {
        let identity = self.certificate.clone().zip(self.key.clone());
        TlsOptions {
            verification: Verification::Full,
            roots: self.ca.clone().map_or(Roots::System, Roots::File),
            identity: identity.map(|(certificate, key)| Identity { certificate, key }),
            alpn: None,
        }
    }
}

/// The SASL mechanism of the login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// User and password.
    #[default]
    Plain,
    /// The TLS client certificate.
    External,
}

/// The text is not a URL that this client can use. The message shows nothing of the text, which holds a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an AMQP URL of the form amqp[s]://user:password@host:port,host:port/vhost?parameters: {0}")]
pub struct InvalidAmqpUrl(Cow<'static, str>);

impl InvalidAmqpUrl {
    fn new(why: &'static str) -> Self {
        Self(why.into())
    }
}

impl From<InvalidPart> for InvalidAmqpUrl {
    fn from(InvalidPart(why): InvalidPart) -> Self {
        Self::new(why)
    }
}

impl FromStr for AmqpUrl {
    type Err = InvalidAmqpUrl;

    fn from_str(text: &str) -> Result<Self, InvalidAmqpUrl> {
        let text = text.trim();
        let (tls, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("amqp") => (None, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("amqps") => (Some(TlsFiles::default()), rest),
            _ => return Err(InvalidAmqpUrl::new("it must start with amqp:// or amqps://")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, vhost) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, addresses) = match authority.rsplit_once('@') {
            Some((login, addresses)) => (Some(login), addresses),
            None => (None, authority),
        };
        // Several logins, or several URLs. Text before the last @ could as well be part of a password.
        if login.is_some_and(|login| login.contains(',')) || text.matches("://").count() > 1 {
            return Err(InvalidAmqpUrl::new(
                "several hosts stand in one URL, with one login and one vhost: amqp://user:password@a:5672,b:5672/vhost \
                 (in a user or password, write , as %2C)",
            ));
        }
        // A password may have blanks that nobody has encoded. A line's end comes from the file that the password was
        // taken from.
        let is_stray = |c: char| c.is_whitespace() || c.is_control();
        if authority.contains(char::is_control) || [vhost, query].iter().any(|part| part.contains(is_stray)) {
            return Err(InvalidAmqpUrl::new(
                "there is white space or a line's end in it (if it is meant, write it as %20 or %0A)",
            ));
        }
        if vhost.contains('@') {
            return Err(InvalidAmqpUrl::new(
                "after the host there is an @ (in a user or password, write / as %2F; in a vhost, @ as %40)",
            ));
        }
        // RabbitMQ's own user for trying things out may log in from the same machine only.
        let (user, password) = login.map_or(("guest", "guest"), |login| login.split_once(':').unwrap_or((login, "")));
        let mut url = Self {
            hosts: Host::list(addresses, if tls.is_some() { 5671 } else { 5672 })?,
            // To the letter, `amqp://host/` means the virtual host with the empty name. Nobody has one.
            vhost: if vhost.is_empty() { "/".to_owned() } else { decode(vhost)? },
            user: decode(user)?,
            password: decode(password)?,
            tls,
            mechanism: Mechanism::default(),
            heartbeat: None,
            connection_timeout: None,
            frame_max: None,
        };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').ok_or(InvalidAmqpUrl::new("a parameter has no value"))?;
            if !url.set(name, decode(value)?)? {
                return Err(unknown(name, query, &url));
            }
        }
        url.check()
    }
}

impl AmqpUrl {
    fn check(self) -> Result<Self, InvalidAmqpUrl> {
        if self.vhost.len() > SHORT_STRING_MAX {
            return Err(InvalidAmqpUrl::new("a vhost's name has at most 255 bytes"));
        }
        // The smallest that the protocol allows.
        if self.frame_max.is_some_and(|bytes| bytes != 0 && bytes < 4096) {
            return Err(InvalidAmqpUrl::new("frame_max is 0 or at least 4096"));
        }
        if self.tls.as_ref().is_some_and(|tls| tls.certificate.is_some() != tls.key.is_some()) {
            return Err(InvalidAmqpUrl::new("certfile and keyfile belong together"));
        }
        Ok(self)
    }

    /// Sets one parameter to its decoded value. Returns `false` if there is no such parameter.
    fn set(&mut self, name: &str, value: String) -> Result<bool, InvalidAmqpUrl> {
        let number = |reason| value.parse::<u32>().map_err(|_| InvalidAmqpUrl::new(reason));
        match name {
            "heartbeat" => {
                let reason = "heartbeat is a number of seconds from 0 to 65535";
                self.heartbeat = Some(u16::try_from(number(reason)?).map_err(|_| InvalidAmqpUrl::new(reason))?);
            }
            "connection_timeout" => {
                let millis = number("connection_timeout is a number of milliseconds")?;
                self.connection_timeout = Some(Duration::from_millis(millis.into()));
            }
            "frame_max" => self.frame_max = Some(number("frame_max is a number of bytes")?),
            "channel_max" => drop(number("channel_max is a number")?), // the client asks for as many as it needs
            "auth_mechanism" => {
                self.mechanism = match value.to_ascii_lowercase().as_str() {
                    "plain" => Mechanism::Plain,
                    "external" => Mechanism::External,
                    _ => return Err(InvalidAmqpUrl::new("auth_mechanism is plain or external")),
                }
            }
            _ => return self.set_tls(name, value),
        }
        Ok(true)
    }

    fn set_tls(&mut self, name: &str, value: String) -> Result<bool, InvalidAmqpUrl> {
        let Some(tls) = &mut self.tls else { return Ok(false) };
        match name {
            "cacertfile" => tls.ca = Some(value.into()),
            "certfile" => tls.certificate = Some(value.into()),
            "keyfile" => tls.key = Some(value.into()),
            "server_name_indication" => tls.server_name = Some(value),
            "verify" if value == "verify_peer" => {}
            "verify" => {
                return Err(InvalidAmqpUrl::new(
                    "verify must be verify_peer: without it TLS proves nothing; trust a private authority with cacertfile",
                ));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The error names an unknown parameter, unless it may be part of a password: a password with a `?` continues up to an
/// `@`.
fn unknown(name: &str, query: &str, url: &AmqpUrl) -> InvalidAmqpUrl {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let name = if is_name && !query.contains('@') && !url.password.contains(name) {
        format!(" {name}")
    } else {
        String::new()
    };
    InvalidAmqpUrl(
        format!(
            "unknown parameter{name}; known are heartbeat, connection_timeout, frame_max, channel_max, auth_mechanism, and \
             with amqps cacertfile, certfile, keyfile, verify, server_name_indication \
             (in a user, password or vhost, write special characters as %XX)"
        )
        .into(),
    )
}

impl fmt::Display for AmqpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "amqps" } else { "amqp" };
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        write!(f, "{scheme}://{}@{}/{}", encode(&self.user), hosts.join(","), encode(&self.vhost))
    }
}

impl fmt::Debug for AmqpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AmqpUrl({self})")
    }
}
