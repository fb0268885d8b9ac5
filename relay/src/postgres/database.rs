//! The database of a connection string, and how to get a session with it.

use std::{
    fmt,
    future::{Ready, ready},
    io,
};

use tokio_postgres::{
    Client, Config,
    config::{SslMode, SslNegotiation, TargetSessionAttrs},
    tls::TlsConnect,
};

use super::{
    bounded::Bounded,
    connect_error::{ConnectCause, ConnectError},
    conninfo,
    dial::{connect_timeout, dial, in_time, targets, targets_to_try},
    framed::Framed,
    invalid_url::InvalidUrl,
    login::login,
    replication::Replication,
    socket::Socket,
    tls::TlsPolicy,
};

/// Longest row that a session for SQL lets in, in bytes. The largest event has a body of 128 MiB (`outbox.max_payload_bytes`), and
/// all else in its row is less than a tenth of a MiB.
const LARGEST_ROW: usize = 130 << 20;

/// What a connection string says: hosts, credentials, TLS. Prints without the password.
#[derive(Clone)]
pub struct Database {
    config: Config,
    tls: TlsPolicy,
}

impl Database {
    /// Reads a URL or `key=value` pairs, with libpq's meanings
    /// (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING>).
    ///
    /// # Errors
    ///
    /// See [`InvalidUrl`].
    pub fn parse(url: &str) -> Result<Self, InvalidUrl> {
        if has_stray_at(url) {
            return Err(InvalidUrl::AtSign);
        }
        let parts = conninfo::split(url.trim());
        let mut config: Config = parts.rest.parse().map_err(|error| InvalidUrl::explain(&error))?;
        let tls = TlsPolicy::from_options(parts.tls)?;
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let count = hosts.len().max(addresses.len());
        if count == 0 {
            return Err(InvalidUrl::NoHost);
        }
        let addresses_fit = hosts.is_empty() || addresses.is_empty() || hosts.len() == addresses.len();
        if !addresses_fit || (ports.len() > 1 && ports.len() != count) {
            return Err(InvalidUrl::Hosts);
        }
        let user = config.get_user().filter(|user| !user.is_empty()).ok_or(InvalidUrl::NoUser)?.to_owned();
        if config.get_dbname().is_none() {
            config.dbname(user);
        }
        Ok(Self { config, tls })
    }

    /// Opens a session for SQL. The second part does its work: it must be polled for as long as the client is used,
    /// and ends when the client is dropped or the connection breaks.
    ///
    /// Tries the hosts in order. Every step (reaching a host, the login) has `connect_timeout`, by default ten seconds.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`]; it tells of the last host that was tried.
    pub async fn connect(
        &self,
        application_name: &str,
    ) -> Result<(Client, impl Future<Output = Result<(), tokio_postgres::Error>> + Send + use<>), ConnectError> {
        let config = self.named(application_name);
        self.first_of_targets(|socket| async {
            let (client, connection) = config
                .connect_raw(Bounded::new(socket, LARGEST_ROW), Established)
                .await
                .map_err(ConnectCause::from_sql)?;
            // Reported since PostgreSQL 14, for this very question.
            let on = |name| connection.parameter(name) == Some("on");
            let read_only = on("in_hot_standby") || on("default_transaction_read_only");
            if read_only && config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
                return Err(ConnectCause::ReadOnly);
            }
            Ok((client, connection))
        })
        .await
    }

    /// Opens a session for replication.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect). A user without the `REPLICATION` right is refused with `42501`; with no
    /// walsender free (`max_wal_senders`) it is `53300`.
    pub async fn connect_replication(&self, application_name: &str) -> Result<Replication, ConnectError> {
        let config = self.named(application_name);
        self.first_of_targets(|socket| async {
            let binding = socket.certificate_hash();
            let mut framed = Framed::new(socket);
            let pid = login(&mut framed, &config, binding).await?;
            Ok(Replication::new(framed, pid))
        })
        .await
    }

    /// The role.
    pub fn user(&self) -> &str {
        self.config.get_user().unwrap_or_default() // `parse` asks for one
    }

    fn named(&self, application_name: &str) -> Config {
        let mut config = self.config.clone();
        // The socket is connected, and encrypted, by then: tokio-postgres must not negotiate again.
        config.application_name(application_name).ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        config
    }

    async fn first_of_targets<T, F: Future<Output = Result<T, ConnectCause>>>(
        &self,
        log_in: impl Fn(Socket) -> F,
    ) -> Result<T, ConnectError> {
        let mut failure = None;
        for target in targets_to_try(&self.config) {
            let attempt = async {
                let socket = dial(&target, &self.config, &self.tls).await?;
                in_time(connect_timeout(&self.config), log_in(socket)).await
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
}

/// Whether a URL has more than the one `@` between login and hosts. Options may have one.
fn has_stray_at(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (before_options, _) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = before_options.split_once('/').unwrap_or((before_options, ""));
    authority.matches('@').count() > 1 || path.contains('@')
}

/// `host:port/database as user`.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets: Vec<String> = targets(&self.config).iter().map(ToString::to_string).collect();
        let (database, user) = (self.config.get_dbname(), self.config.get_user());
        write!(f, "{}/{} as {}", targets.join(","), database.unwrap_or_default(), user.unwrap_or_default())
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({self})")
    }
}

/// "Makes" the TLS session that a [`Socket`] has already.
struct Established;

impl TlsConnect<Bounded> for Established {
    type Stream = Bounded;
    type Error = io::Error;
    type Future = Ready<io::Result<Bounded>>;

    fn connect(self, socket: Bounded) -> Self::Future {
        ready(Ok(socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_prints_without_its_password() {
        for (text, printed) in [
            ("postgres://relay:s3cret@db.example:6543/shop?sslmode=require", "db.example:6543/shop as relay"),
            ("host=a,b port=1,2 user=u password='s3cret'", "a:1,b:2/u as u"),
            ("postgresql:///d?user=u&host=/run/pg&password=s3cret", "/run/pg:5432/d as u"),
        ] {
            let database = Database::parse(text).unwrap();
            assert_eq!(database.to_string(), printed);
            assert!(!format!("{database:?}").contains("s3cret"));
        }
    }

    #[test]
    fn a_bad_connection_string_is_refused_without_repeating_the_password() {
        for text in [
            "postgres://u:s3cret@h:port/d",
            "postgres://u:s3@cret@h:1/d",
            "user=u password=my s3cret host=h",
            "user=u password=my s3cret=x host=h",
            "user=u password='s3cret host=h",
            "postgres://u:p?s3cret=x/d",
            "postgres://u:p@s3cret@h/d",
            "postgres://u:p@p/s3cret@h/d",
            "postgres://u:p/s3cret@h/d",
            "postgres://u:s3cret@h/d?sslmode=s3cret",
            "postgres://u:s3cret@h/d?s3cret=1",
            "s3cret",
        ] {
            let Err(error) = Database::parse(text) else { continue };
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{text}: {error:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, expected) in [
            ("user=u", "it names no host"),
            ("postgres://h/d", "it names no user"),
            ("postgres://u:p@w@h/d", "it has an @ too many"),
            ("postgres://u@h:port/d", "invalid value for option `port`"),
            ("postgres://u@h/d?gssencmode=disable", "the option gssencmode is not supported"),
            ("host=a,b,c port=1,2 user=u", "it must name one port"),
            ("postgres://u@h/d?sslmode=allow", "sslmode must be"),
            ("mysql://u@h/d", "not a connection string"),
        ] {
            let error = Database::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
