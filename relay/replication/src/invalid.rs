//! Why a connection string cannot be used.

/// Why a connection string cannot be used. Its text never repeats a possible part of a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidConnInfo {
    /// Neither a URL nor `key=value` pairs, or an option that does not exist.
    #[error("not a connection string like postgres://user:password@host:5432/database")]
    Syntax,
    /// An `@` that could belong to a password: the text behind it would be taken for a host, looked up and shown.
    #[error("it has an @ too many: in a user or password write it as %40, and / as %2F")]
    AtSign,
    /// An option has an impossible value.
    #[error("{0}")]
    Value(String),
    /// An option of libpq, or of a library's own, that is not supported here.
    #[error("the option {0} is not supported: leave it out")]
    Unsupported(String),
    /// White space in the host, the database or an option.
    #[error("there is white space or a line's end in it: leave it out (if it is meant, write it as %20 or %0A)")]
    WhiteSpace,
    /// No host and no socket folder.
    #[error("it names no host")]
    NoHost,
    /// No user.
    #[error("it names no user")]
    NoUser,
    /// Hosts, addresses and ports do not go together.
    #[error("it must name one port, or one for each host, and an address for each host or for none")]
    Hosts,
    /// `sslmode` has an unknown value.
    #[error("sslmode must be disable, prefer, require, verify-ca or verify-full")]
    SslMode,
    /// A verification that anyone could pass.
    #[error("sslmode=verify-ca needs an sslrootcert file, and sslrootcert=system needs sslmode=verify-full")]
    WeakVerification,
    /// `sslcert` without `sslkey`, or the other way round.
    #[error("sslcert and sslkey go together")]
    HalfIdentity,
}

/// libpq's options that a connection string may have, and that are not supported here.
const UNSUPPORTED: [&str; 24] = [
    "client_encoding",
    "fallback_application_name",
    "gssdelegation",
    "gssencmode",
    "gsslib",
    "keepalives_count",
    "krbsrvname",
    "max_protocol_version",
    "min_protocol_version",
    "passfile",
    "replication",
    "require_auth",
    "requirepeer",
    "service",
    "servicefile",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkeylogfile",
    "sslpassword",
    "sslsni",
];

impl InvalidConnInfo {
    /// Says what is wrong with `text` without repeating a possible secret: an unquoted password ends up anywhere.
    pub(crate) fn explain(error: &tokio_postgres::Error, text: &str) -> Self {
        let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        let option = why.strip_prefix("unknown option `").and_then(|rest| rest.strip_suffix('`'));
        match option {
            Some(name) if UNSUPPORTED.contains(&name) || is_of_query(name, text) => Self::Unsupported(name.to_owned()),
            None if why.starts_with("invalid value for option") => Self::Value(why), // names the option only
            _ => Self::Syntax,
        }
    }
}

/// Whether the option stands behind a URL's `?`, as Prisma's `schema` and Rails' `pool` do, and cannot be part of a
/// password. A password with a `?` continues up to an `@`.
fn is_of_query(name: &str, url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (login, rest) = rest.split_once('@').unwrap_or(("", rest));
    let query = rest.split_once('?').map(|(_, query)| query);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let has_it =
        |query: &str| !query.contains('@') && query.split('&').any(|pair| pair.split('=').next() == Some(name));
    is_name && !login.contains(name) && query.is_some_and(has_it)
}
