//! A cluster's address. Kafka itself has no form for it; this one is that of other clients' URLs.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt, path::PathBuf, str::FromStr};

use client_socket::{Host, Identity, InvalidPart, Roots, TlsOptions, Verification, decode, encode};

/// Kafka's usual port, with TLS or without.
const PORT: u16 = 9092;

/// Where brokers of a cluster are and who logs in, such as `kafka://app:secret@a:9092,b,[::1]:9093`. `Display` and
/// `Debug` show no password.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaUrl {
    /// Brokers, which name the others; at least one.
    pub(crate) hosts: Vec<Host>,
    /// User and password; `None`: nobody logs in.
    pub(crate) login: Option<(String, String)>,
    /// `None` for `kafka`, settings for `kafkas`.
    pub(crate) tls: Option<TlsOptions>,
    pub(crate) mechanism: Mechanism,
}

/// The SASL mechanism of the login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// User and password.
    #[default]
    Plain,
    /// User and password, which does not leave the client.
    ScramSha256,
    /// User and password, which does not leave the client.
    ScramSha512,
    /// A token of OAuth 2, in place of the password.
    OAuthBearer,
}

impl Mechanism {
    /// The mechanism's name in SASL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }
}

/// The text is not a URL that this client can use. The message shows nothing of the text, which may hold a password.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a Kafka URL of the form kafka[s]://user:password@host:port,host:port?parameters: {0}")]
pub struct InvalidKafkaUrl(Cow<'static, str>);

impl InvalidKafkaUrl {
    fn new(why: &'static str) -> Self {
        Self(why.into())
    }
}

impl From<InvalidPart> for InvalidKafkaUrl {
    fn from(InvalidPart(why): InvalidPart) -> Self {
        Self::new(why)
    }
}

impl FromStr for KafkaUrl {
    type Err = InvalidKafkaUrl;

    fn from_str(text: &str) -> Result<Self, InvalidKafkaUrl> {
        let text = text.trim();
        let (is_encrypted, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("kafka") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("kafkas") => (true, rest),
            _ => return Err(InvalidKafkaUrl::new("it must start with kafka:// or kafkas://")),
        };
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (login, addresses) = match authority.rsplit_once('@') {
            Some((login, addresses)) => (Some(login), addresses),
            None => (None, authority),
        };
        // Several logins, or several URLs. Text before the last @ could as well be part of a password.
        if login.is_some_and(|login| login.contains(',')) || text.matches("://").count() > 1 {
            return Err(InvalidKafkaUrl::new(
                "several hosts stand in one URL, with one login: kafka://user:password@a:9092,b:9092 (in a user or \
                 password, write , as %2C)",
            ));
        }
        if text.contains(char::is_control) || query.contains(char::is_whitespace) {
            return Err(InvalidKafkaUrl::new(
                "there is white space or a line's end in it (if it is meant, write it as %20 or %0A)",
            ));
        }
        if addresses.contains('/') || query.contains('@') {
            return Err(InvalidKafkaUrl::new(
                "nothing but parameters stands after the hosts (in a user or password, write / as %2F, ? as %3F)",
            ));
        }
        let login = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => Some((decode(user)?, decode(password)?)),
            None => None,
        };
        let tls = is_encrypted.then(TlsOptions::default);
        let mut url = Self { hosts: Host::list(addresses, PORT)?, login, tls, mechanism: Mechanism::default() };
        let has_mechanism = query.split('&').any(|parameter| parameter.starts_with("sasl="));
        let mut files = ClientFiles::default();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').ok_or(InvalidKafkaUrl::new("a parameter has no value"))?;
            url.set(name, decode(value)?, &mut files)?;
        }
        let problem = match &url.login {
            None if has_mechanism => "sasl needs a login: kafka://user:password@host",
            // A token of OAuth 2 names its user itself.
            Some((user, _)) if user.is_empty() && url.mechanism != Mechanism::OAuthBearer => {
                "the login has no user: kafka://user:password@host"
            }
            Some((_, password)) if password.is_empty() => "the login has no password: kafka://user:password@host",
            _ => return url.check(files),
        };
        Err(InvalidKafkaUrl::new(problem))
    }
}

/// The files of the client's own certificate.
#[derive(Default)]
struct ClientFiles {
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl KafkaUrl {
    /// Sets one parameter to its decoded value.
    fn set(&mut self, name: &str, value: String, files: &mut ClientFiles) -> Result<(), InvalidKafkaUrl> {
        let is_encrypted = self.tls.is_some();
        match name {
            "sasl" => {
                self.mechanism = match value.to_ascii_lowercase().as_str() {
                    "plain" => Mechanism::Plain,
                    "scram-sha-256" => Mechanism::ScramSha256,
                    "scram-sha-512" => Mechanism::ScramSha512,
                    "oauthbearer" => Mechanism::OAuthBearer,
                    _ => {
                        return Err(InvalidKafkaUrl::new("sasl is plain, scram-sha-256, scram-sha-512 or oauthbearer"));
                    }
                }
            }
            "cacertfile" if is_encrypted => {
                self.tls = self.tls.take().map(|tls| TlsOptions { roots: Roots::File(value.into()), ..tls });
            }
            "certfile" if is_encrypted => files.certificate = Some(value.into()),
            "keyfile" if is_encrypted => files.key = Some(value.into()),
            _ => {
                return Err(InvalidKafkaUrl::new(
                    "unknown parameter; known are sasl, and with kafkas cacertfile, certfile, keyfile (in a user or \
                     password, write special characters as %XX)",
                ));
            }
        }
        Ok(())
    }

    fn check(mut self, files: ClientFiles) -> Result<Self, InvalidKafkaUrl> {
        let identity = match (files.certificate, files.key) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            _ => return Err(InvalidKafkaUrl::new("certfile and keyfile belong together")),
        };
        self.tls = self.tls.map(|tls| TlsOptions { identity, verification: Verification::Full, ..tls });
        Ok(self)
    }
}

impl fmt::Display for KafkaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { "kafkas://" } else { "kafka://" })?;
        if let Some((user, _)) = &self.login {
            write!(f, "{}@", encode(user))?;
        }
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        f.write_str(&hosts.join(","))
    }
}

impl fmt::Debug for KafkaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KafkaUrl({self})")
    }
}
