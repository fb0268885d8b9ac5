//! TCP connections, and how a dead peer is noticed.

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, ToSocketAddrs};

/// How a dead peer is noticed. The default leaves it to the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Probes while nothing is sent; `None`: no probes.
    pub keepalive: Option<Keepalive>,
    /// How long sent bytes may stay unacknowledged by the peer's kernel; `None`: the system's default. Linux only.
    pub user_timeout: Option<Duration>,
}

/// When a quiet peer is probed. A peer that answers none of the probes is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Quiet time before the first probe.
    pub idle: Duration,
    /// Time between probes; `None`: the system's default.
    pub interval: Option<Duration>,
    /// How many probes may stay unanswered; `None`: the system's default.
    pub retries: Option<u32>,
}

impl TcpOptions {
    /// Connects to the first of the addresses that answers. Small writes leave at once (`TCP_NODELAY`): the client
    /// batches its messages itself.
    ///
    /// # Errors
    ///
    /// The name does not resolve, nobody listens, or the system does not accept an option.
    pub async fn connect(&self, address: impl ToSocketAddrs) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        if let Some(Keepalive { idle, interval, retries }) = self.keepalive {
            let mut keepalive = TcpKeepalive::new().with_time(idle);
            if let Some(interval) = interval {
                keepalive = keepalive.with_interval(interval);
            }
            if let Some(retries) = retries {
                keepalive = keepalive.with_retries(retries);
            }
            socket.set_tcp_keepalive(&keepalive)?;
        }
        #[cfg(target_os = "linux")]
        if self.user_timeout.is_some() {
            socket.set_tcp_user_timeout(self.user_timeout)?;
        }
        Ok(stream)
    }
}
