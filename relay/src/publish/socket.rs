//! The TCP connection to the broker, with TLS or without.

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use super::{AmqpUrl, PublishError, tls};

/// Keeps a way through firewalls and NAT open. A dead peer is noticed by AMQP's heartbeats, long before.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Either kind of socket.
pub(super) type Socket = Box<dyn Duplex>;

/// Both directions of a byte stream.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Connects to the first of the host's addresses that answers.
pub(super) async fn connect(url: &AmqpUrl) -> Result<Socket, PublishError> {
    let tcp = connect_tcp(url).await.map_err(|source| PublishError::Connect { address: url.address(), source })?;
    let Some(files) = &url.tls else {
        return Ok(Box::new(tcp));
    };
    let handshake = async { tls::connector(files)?.connect(tls::server_name(files, &url.host)?, tcp).await };
    match handshake.await {
        Ok(tls) => Ok(Box::new(tls)),
        Err(source) if tls::speaks_none(&source) => Err(PublishError::WrongPort {
            address: url.address(),
            reason: "it does not speak TLS; use amqp://, or its TLS port (5671 as a rule)",
        }),
        Err(source) => Err(PublishError::Tls { address: url.address(), source }),
    }
}

async fn connect_tcp(url: &AmqpUrl) -> io::Result<TcpStream> {
    let tcp = TcpStream::connect((url.host.as_str(), url.port)).await?;
    tcp.set_nodelay(true)?;
    SockRef::from(&tcp).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_IDLE))?;
    Ok(tcp)
}
