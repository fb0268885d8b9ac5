//! Why a connection string cannot be used.

/// A connection string that cannot be used. Never repeats what may be part of a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidConnInfo {
    /// Neither a URL nor `key=value` pairs, or an option that does not exist.
    #[error("not a connection string like postgres://user:password@host:5432/database")]
    Syntax,
    /// An `@` that could be a password's: what stands behind it would be taken for a host, looked up and shown.
    #[error("it has an @ too many: in a user or password write it as %40, and / as %2F")]
    AtSign,
    /// An option has an impossible value.
    #[error("{0}")]
    Value(String),
    /// An option of libpq that is not supported here.
    #[error("the option {0} is not supported")]
    Unsupported(&'static str),
    /// No host and no socket folder.
    #[error("it names no host")]
    NoHost,
    /// No user.
    #[error("it names no user")]
    NoUser,
    /// Hosts, addresses and ports do not go together.
    #[error("it must name one port, or one for each host, and an address for each host or for none")]
    Hosts,
    /// `sslmode` is none of the known ones.
    #[error("sslmode must be disable, prefer, require, verify-ca or verify-full")]
    SslMode,
    /// A verification that anyone could pass.
    #[error("sslmode=verify-ca needs an sslrootcert file, and sslrootcert=system needs sslmode=verify-full")]
    WeakVerification,
    /// `sslcert` without `sslkey`, or the other way round.
    #[error("sslcert and sslkey go together")]
    HalfIdentity,
}

/// Options of libpq that people may bring along.
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
    /// Tells what is wrong as far as it cannot be part of a secret: a password that was not quoted ends up anywhere.
    pub(crate) fn explain(error: &tokio_postgres::Error) -> Self {
        let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        match UNSUPPORTED.iter().find(|name| why == format!("unknown option `{name}`")) {
            Some(name) => Self::Unsupported(name),
            None if why.starts_with("invalid value for option") => Self::Value(why), // names the option only
            None => Self::Syntax,
        }
    }
}
