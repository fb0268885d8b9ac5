//! From a host of the connection string to a connected socket, encrypted if the string asks for it.

use std::{io, path::PathBuf, time::Duration};

use client_socket::{Keepalive, Socket, TcpOptions, TlsError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream, lookup_host},
    time::timeout,
};
use tokio_postgres::config::{Config, Host, LoadBalanceHosts, SslNegotiation};

use crate::{
    error::ConnectCause,
    sslmode::{SslMode, TlsPolicy},
};

const DEFAULT_PORT: u16 = 5432;
/// Time limit for each address, and again for the login. It is longer than a lost SYN's first retries.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Quiet time before the peer is probed, and between probes. A dead peer is noticed within a minute, and the slot of a
/// dead session cannot be taken over sooner anyway.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;
/// How long sent bytes may stay unacknowledged by the peer's kernel.
const USER_TIMEOUT: Duration = Duration::from_secs(60);
/// The keepalive idle time that tokio-postgres gives if the connection string has none.
const KEEPALIVE_IDLE_UNSET: Duration = Duration::from_secs(2 * 60 * 60);

/// One host of a connection string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Name (for TLS), what to resolve (the name, or its `hostaddr`), and port.
    Tcp { name: String, address: String, port: u16 },
    /// The socket's folder, and the port that is part of its name.
    Unix { folder: PathBuf, port: u16 },
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { name, port, .. } if name.contains(':') => write!(f, "[{name}]:{port}"),
            Self::Tcp { name, port, .. } => write!(f, "{name}:{port}"),
            Self::Unix { folder, port } => write!(f, "{}:{port}", folder.display()),
        }
    }
}

/// The hosts of a connection string, in its order.
pub(crate) fn targets(config: &Config) -> Vec<Target> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let target = |index: usize| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(DEFAULT_PORT);
        let address = addresses.get(index).map(ToString::to_string);
        match (hosts.get(index), address) {
            (Some(Host::Unix(folder)), _) => Some(Target::Unix { folder: folder.clone(), port }),
            (Some(Host::Tcp(name)), address) => {
                Some(Target::Tcp { name: name.clone(), address: address.unwrap_or_else(|| name.clone()), port })
            }
            (None, Some(address)) => Some(Target::Tcp { name: address.clone(), address, port }),
            (None, None) => None,
        }
    };
    (0..hosts.len().max(addresses.len())).filter_map(target).collect()
}

/// The hosts in the order in which to try them.
pub(crate) fn targets_to_try(config: &Config) -> Vec<Target> {
    let mut targets = targets(config);
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        fastrand::shuffle(&mut targets);
    }
    targets
}

/// Time limit for each step of making a connection.
pub(crate) fn connect_timeout(config: &Config) -> Duration {
    config.get_connect_timeout().copied().filter(|limit| !limit.is_zero()).unwrap_or(DEFAULT_CONNECT_TIMEOUT)
}

/// Connects to the first of the target's addresses that answers.
pub(crate) async fn dial(target: &Target, config: &Config, tls: &TlsPolicy) -> Result<Socket, ConnectCause> {
    let limit = connect_timeout(config);
    let (name, address, port) = match target {
        Target::Tcp { name, address, port } => (name, address, *port),
        Target::Unix { folder, port } => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            return Ok(Socket::unix(in_time(limit, UnixStream::connect(path)).await?));
        }
    };
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address").into();
    for address in in_time(limit, lookup_host((address.as_str(), port))).await? {
        match in_time(limit, tcp_options(config).connect(address)).await {
            Ok(stream) => return in_time(limit, encrypt(stream, name, config, tls)).await,
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Runs one step under the time limit.
pub(crate) async fn in_time<T, E: Into<ConnectCause>>(
    limit: Duration,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, ConnectCause> {
    timeout(limit, step).await.map_err(|_| ConnectCause::TimedOut(limit))?.map_err(Into::into)
}

fn tcp_options(config: &Config) -> TcpOptions {
    let idle = Some(config.get_keepalives_idle()).filter(|idle| *idle != KEEPALIVE_IDLE_UNSET);
    let keepalive = Keepalive {
        idle: idle.unwrap_or(KEEPALIVE_IDLE),
        interval: Some(config.get_keepalives_interval().unwrap_or(KEEPALIVE_INTERVAL)),
        retries: Some(config.get_keepalives_retries().unwrap_or(KEEPALIVE_RETRIES)),
    };
    TcpOptions {
        keepalive: config.get_keepalives().then_some(keepalive),
        user_timeout: Some(config.get_tcp_user_timeout().copied().unwrap_or(USER_TIMEOUT)),
    }
}

async fn encrypt(mut stream: TcpStream, name: &str, config: &Config, tls: &TlsPolicy) -> Result<Socket, ConnectCause> {
    if tls.mode == SslMode::Disable {
        return Ok(Socket::tcp(stream));
    }
    if config.get_ssl_negotiation() == SslNegotiation::Postgres {
        const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]; // length, and 1234 5679
        stream.write_all(&SSL_REQUEST).await?;
        // Exactly one byte: what follows in the clear, if anything, must not be taken for part of the session.
        match (stream.read_u8().await?, tls.mode) {
            (b'S', _) => {}
            (b'N', SslMode::Prefer) => return Ok(Socket::tcp(stream)),
            (b'N', _) => return Err(refused("the server does not support it, and sslmode asks for it")),
            _ => return Err(refused("the server does not understand the request for it")),
        }
    }
    tls.tls.connect(stream, name).await.map_err(|error| {
        let inner = error.get_ref().and_then(|error| error.downcast_ref());
        match inner {
            Some(error @ TlsError::NoAuthorities { .. }) => {
                ConnectCause::Tls(io::Error::other(format!("{error}: name one with sslrootcert")))
            }
            _ => ConnectCause::Tls(error),
        }
    })
}

fn refused(why: &'static str) -> ConnectCause {
    ConnectCause::Tls(io::Error::other(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Vec<String> {
        targets(&text.parse().unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_host_has_its_port() {
        assert_eq!(listed("postgres://a:1,b,c:3/d"), ["a:1", "b:5432", "c:3"]);
        assert_eq!(listed("host=a,b port=7"), ["a:7", "b:7"]);
        assert_eq!(listed("host=/run/postgresql"), ["/run/postgresql:5432"]);
        assert_eq!(listed("postgres://[::1]:6/d"), ["[::1]:6"]);
    }

    #[test]
    fn an_address_given_with_a_name_is_dialled_and_the_name_verified() {
        let target = Target::Tcp { name: "db".into(), address: "10.0.0.1".into(), port: 5432 };
        assert_eq!(targets(&"host=db hostaddr=10.0.0.1".parse().unwrap()), [target]);
        assert_eq!(listed("hostaddr=10.0.0.1"), ["10.0.0.1:5432"]);
    }
}
