//! The connection string: where the server is, who logs in, and what TLS must prove.

#[cfg(test)]
mod tests;

use std::{fmt, io, str::FromStr};

use client_socket::Socket;
use tokio_postgres::{
    Config,
    config::{SslMode, SslNegotiation, TargetSessionAttrs},
};

use crate::{
    channel_binding::channel_binding,
    dial::{connect_timeout, dial, in_time, targets, targets_to_try},
    error::{ConnectCause, ConnectError},
    framed::Framed,
    invalid::InvalidConnInfo,
    login::login,
    options,
    peer::Peer,
    replication::Replication,
    search_path,
    sslmode::TlsPolicy,
};

/// A connection string: hosts, credentials, TLS. `Display` and `Debug` show no password.
///
/// It is parsed from a URL or from `key=value` pairs, with libpq's meanings
/// (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING>):
///
/// ```
/// let server: pg_replication::ConnInfo = "postgres://app:s3cret@db.example/shop?sslmode=verify-full".parse()?;
/// assert_eq!(server.to_string(), "db.example:5432/shop as app");
/// # Ok::<_, pg_replication::InvalidConnInfo>(())
/// ```
#[derive(Clone)]
pub struct ConnInfo {
    config: Config,
    tls: TlsPolicy,
}

impl FromStr for ConnInfo {
    type Err = InvalidConnInfo;

    fn from_str(url: &str) -> Result<Self, InvalidConnInfo> {
        if has_stray_at(url) {
            return Err(InvalidConnInfo::AtSign);
        }
        let url = url.trim();
        if has_stray_space(url) {
            return Err(InvalidConnInfo::WhiteSpace);
        }
        let parts = options::split(url);
        let mut config: Config = parts.rest.parse().map_err(|error| InvalidConnInfo::explain(&error, url))?;
        let tls = TlsPolicy::from_options(parts.tls)?;
        // Nothing here looks for a standby.
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(InvalidConnInfo::Value("invalid value for option `target_session_attrs`".to_owned()));
        }
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let count = hosts.len().max(addresses.len());
        if count == 0 {
            return Err(InvalidConnInfo::NoHost);
        }
        let addresses_fit = hosts.is_empty() || addresses.is_empty() || hosts.len() == addresses.len();
        if !addresses_fit || (ports.len() > 1 && ports.len() != count) {
            return Err(InvalidConnInfo::Hosts);
        }
        let user = config.get_user().filter(|user| !user.is_empty()).ok_or(InvalidConnInfo::NoUser)?.to_owned();
        if config.get_dbname().is_none() {
            config.dbname(user);
        }
        Ok(Self { config, tls })
    }
}

impl ConnInfo {
    /// Opens a session for replication.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open). A user without the `REPLICATION` right gets `42501`. If no walsender is free
    /// (`max_wal_senders`), the code is `53300`.
    pub async fn connect_replication(&self, application_name: &str) -> Result<Replication, ConnectError> {
        self.open_session(application_name, |socket, config| async move {
            let binding = channel_binding(&socket);
            let mut framed = Framed::new(socket);
            let accepted = login(&mut framed, &config, binding).await?;
            let mut session = Replication::new(framed, accepted.pid);
            session.begin(accepted.server_version.as_deref()).await?;
            Ok(session)
        })
        .await
        .map(|(session, _)| session)
    }

    /// Opens a session of any kind, and leaves the login to `log_in`, for example to [`Config::connect_raw`]. Returns
    /// the host too.
    ///
    /// The configuration that `log_in` gets pins the search path by an option of the start-up message. A pooler may
    /// drop that option, so the session's first statement has to be [`PIN_SEARCH_PATH`](crate::PIN_SEARCH_PATH). If the
    /// option is refused, as by PgBouncer, the session is opened without it.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open).
    pub async fn open_session<T, F: Future<Output = Result<T, ConnectCause>>>(
        &self,
        application_name: &str,
        log_in: impl Fn(Socket, Config) -> F,
    ) -> Result<(T, Peer), ConnectError> {
        let pinned = self.session(application_name);
        match self.open(|socket| log_in(socket, pinned.clone())).await {
            Err(error) if error.sqlstate().is_some_and(search_path::refuses_options) => {
                let without = self.session_without_pin(application_name);
                self.open(|socket| log_in(socket, without.clone())).await
            }
            opened => opened,
        }
    }

    /// Connects, encrypts if the string asks for it, and leaves the login to `log_in`. Returns the host too.
    ///
    /// Tries the hosts in order. Every step (reaching a host, the login) may take `connect_timeout`, by default ten
    /// seconds.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`], which names the last host that was tried.
    pub async fn open<T, F: Future<Output = Result<T, ConnectCause>>>(
        &self,
        log_in: impl Fn(Socket) -> F,
    ) -> Result<(T, Peer), ConnectError> {
        let mut failure = None;
        for target in targets_to_try(&self.config) {
            let attempt = async {
                let socket = dial(&target, &self.config, &self.tls).await?;
                let peer = Peer::new(&target, &socket);
                in_time(connect_timeout(&self.config), log_in(socket)).await.map(|session| (session, peer))
            };
            match attempt.await {
                Ok(session) => return Ok(session),
                Err(cause) => {
                    let decided = !cause.concerns_this_host_only();
                    failure = Some(ConnectError { server: target.to_string(), cause });
                    if decided {
                        break;
                    }
                }
            }
        }
        let nowhere = || ConnectError { server: self.to_string(), cause: io::Error::other("no host to try").into() };
        Err(failure.unwrap_or_else(nowhere))
    }

    /// User, password, database and options, for a session over a socket that is already connected and encrypted.
    pub fn session(&self, application_name: &str) -> Config {
        let mut config = self.session_without_pin(application_name);
        config.options(search_path::option(self.config.get_options()));
        config
    }

    fn session_without_pin(&self, application_name: &str) -> Config {
        let mut config = self.config.clone();
        // tokio-postgres must not negotiate again.
        config.application_name(application_name).ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        config
    }

    /// The database.
    pub fn database(&self) -> &str {
        self.config.get_dbname().unwrap_or_default() // parsing sets one
    }

    /// The role.
    pub fn user(&self) -> &str {
        self.config.get_user().unwrap_or_default() // parsing asks for one
    }
}

/// `host:port/database as user`.
impl fmt::Display for ConnInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets: Vec<String> = targets(&self.config).iter().map(ToString::to_string).collect();
        let (database, user) = (self.config.get_dbname(), self.config.get_user());
        write!(f, "{}/{} as {}", targets.join(","), database.unwrap_or_default(), user.unwrap_or_default())
    }
}

impl fmt::Debug for ConnInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnInfo({self})")
    }
}

/// Whether a URL has more `@` than the one between login and hosts. Options may contain any.
fn has_stray_at(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (before_options, _) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = before_options.split_once('/').unwrap_or((before_options, ""));
    authority.matches('@').count() > 1 || path.contains('@')
}

/// Whether a URL has white space behind its login, or a line's end anywhere. White space would become part of a name or
/// of an option's value.
fn has_stray_space(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://").filter(|(scheme, _)| ["postgres", "postgresql"].contains(scheme))
    else {
        return false;
    };
    let behind = rest.rsplit_once('@').map_or(rest, |(_, behind)| behind);
    rest.contains(char::is_control) || behind.contains(char::is_whitespace)
}
