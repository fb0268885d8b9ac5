//! From a node's address to an open virtual host. The publisher and the consumer open their channels from there.
//!
//! ```text
//! AMQP 0-9-1 ─▶ ◀─ start   start-ok (log in) ─▶ ◀─ tune   tune-ok, open vhost ─▶ ◀─ open-ok
//! ```

use std::{io, time::Duration};

use bytes::{BufMut, BytesMut};
use client_socket::{Keepalive, Socket, TcpOptions, speaks_no_tls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{
    dial::Peer,
    error::AmqpError,
    url::{AmqpUrl, Mechanism},
};
use crate::protocol::{
    frame::{Content, next_frame},
    method::{self, CHANNEL, Method},
    wire::METHOD,
};

/// Keepalive holds the way through firewalls and NAT open. Heartbeats notice a dead peer long before.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// The longest frame that this client offers to handle, in bytes: RabbitMQ's own default, 128 KiB.
const FRAME_MAX_BYTES: u32 = 131_072;
/// The shortest limit that the protocol knows.
const FRAME_MIN_BYTES: u32 = 4096;
/// The default interval of heartbeats. RabbitMQ's guide recommends 5 to 20 s: a dead peer is noticed soon, and a busy
/// peer is not mistaken for a dead one (<https://www.rabbitmq.com/docs/heartbeats>).
const HEARTBEAT_SECONDS: u16 = 10;

/// The beginning of RabbitMQ's first frame: a method, on channel 0.
const AMQP_BEGINS: [u8; 3] = [METHOD, 0, 0];

/// Types of TLS records (RFC 8446, section 5.1). No frame of AMQP begins with them.
const TLS_ALERT: u8 = 21;
const TLS_HANDSHAKE: u8 = 22;

/// What the broker and the operators are told of a client.
pub(crate) struct Client<'a> {
    pub(crate) url: &'a AmqpUrl,
    /// Channels to ask for beside the main one.
    pub(crate) side_channels: u16,
    pub(crate) connection_name: &'a str,
    pub(crate) product: &'a str,
    pub(crate) version: &'a str,
}

/// A connection with an open channel, and what was agreed on.
pub(crate) struct Opened<S = Socket> {
    pub(crate) socket: S,
    /// Bytes that came after the last method of the handshake.
    pub(crate) received: BytesMut,
    /// Longest frame in bytes, either way.
    pub(crate) frame_max: usize,
    /// Channels that may be opened beside the main one.
    pub(crate) side_channels: u16,
    /// Interval of heartbeats; `None`: none.
    pub(crate) heartbeat: Option<Duration>,
}

/// Logs in over a connected socket, opens the virtual host, and then what `open` opens.
pub(crate) async fn shake_hands<S: AsyncRead + AsyncWrite + Unpin, T>(
    client: &Client<'_>,
    socket: S,
    open: impl AsyncFnOnce(&mut Handshake<S>) -> Result<T, AmqpError>,
) -> Result<(Opened<S>, T), AmqpError> {
    let mut out = BytesMut::new();
    out.put_slice(b"AMQP\x00\x00\x09\x01");
    let frame_max = FRAME_MAX_BYTES as usize;
    let mut handshake = Handshake { socket, received: BytesMut::new(), out, frame_max, side_channels: 0 };
    let heartbeat = handshake.log_in(client).await?;
    handshake.open_vhost(&client.url.vhost).await?;
    let open = match open(&mut handshake).await {
        Ok(open) => open,
        Err(error) => {
            method::connection_close(&mut handshake.out); // otherwise the broker logs a lost connection
            let _ = handshake.send().await;
            return Err(error);
        }
    };
    let Handshake { socket, received, frame_max, side_channels, .. } = handshake;
    Ok((Opened { socket, received, frame_max, side_channels, heartbeat }, open))
}

/// Connects to the node, and encrypts if the URL says so.
pub(crate) async fn connect(url: &AmqpUrl, peer: &Peer) -> Result<Socket, AmqpError> {
    let keepalive = Some(Keepalive { idle: KEEPALIVE_IDLE, interval: None, retries: None });
    let tcp = TcpOptions { keepalive, user_timeout: None }.connect(peer.address).await;
    let tcp = tcp.map_err(AmqpError::Connect)?;
    let Some(tls) = &url.tls else { return Ok(Socket::tcp(tcp)) };
    let name = tls.server_name.as_deref().unwrap_or(&peer.host);
    tls.options().connect(tcp, name).await.map_err(|source| match source {
        source if speaks_no_tls(&source) => {
            AmqpError::WrongPort("it does not speak TLS; use amqp://, or its TLS port (5671 as a rule)")
        }
        source => AmqpError::Tls(source),
    })
}

/// A handshake under way: whoever opens a channel writes methods to `out`, and asks.
pub(crate) struct Handshake<S> {
    socket: S,
    received: BytesMut,
    pub(crate) out: BytesMut,
    frame_max: usize,
    side_channels: u16,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Handshake<S> {
    /// Logs in and agrees on limits. Returns the interval of heartbeats.
    async fn log_in(&mut self, client: &Client<'_>) -> Result<Option<Duration>, AmqpError> {
        let url = client.url;
        let refused = |text: String| AmqpError::Authentication { user: url.user.clone(), text };
        let mechanisms = match self.start().await? {
            Method::Start { mechanisms } => mechanisms,
            other @ Method::ConnectionClose { .. } => return Err(unexpected(other)),
            _ => return Err(self.wrong_port()),
        };
        let (mechanism, response) = match url.mechanism {
            Mechanism::Plain => ("PLAIN", format!("\0{}\0{}", url.user, url.password)),
            Mechanism::External => ("EXTERNAL", String::new()),
        };
        if !mechanisms.split(' ').any(|offered| offered == mechanism) {
            return Err(refused(format!("it offers {mechanisms} to log in, not {mechanism}")));
        }
        let properties = [
            ("product", client.product),
            ("version", client.version),
            ("platform", "Rust"),
            ("connection_name", client.connection_name),
        ];
        method::start_ok(&mut self.out, &properties, mechanism, response.as_bytes());
        match self.ask().await? {
            Method::Tune { channel_max, frame_max, heartbeat } => {
                let wanted = CHANNEL.saturating_add(client.side_channels);
                let channel_max = if channel_max == 0 { wanted } else { wanted.min(channel_max) };
                self.side_channels = channel_max.saturating_sub(CHANNEL);
                let frame_max = agree_on_frame_max(frame_max, url);
                let heartbeat = agree_on_heartbeat(heartbeat, url);
                self.frame_max = frame_max as usize;
                method::tune_ok(&mut self.out, channel_max, frame_max, heartbeat);
                Ok((heartbeat > 0).then(|| Duration::from_secs(heartbeat.into())))
            }
            Method::ConnectionClose { code: 403, text } => Err(refused(text)),
            other => Err(unexpected(other)),
        }
    }

    /// Sends the protocol's header and waits for the first method. A peer that says anything else is not RabbitMQ's
    /// AMQP listener.
    async fn start(&mut self) -> Result<Method, AmqpError> {
        self.send().await.map_err(AmqpError::Disconnected)?;
        while self.begins_like_amqp() && self.received.len() < AMQP_BEGINS.len() {
            match self.receive().await {
                Err(AmqpError::Disconnected(error))
                    if self.received.is_empty() && error.kind() == io::ErrorKind::UnexpectedEof =>
                {
                    return Err(AmqpError::HungUp);
                }
                received => received?,
            }
        }
        if !self.begins_like_amqp() {
            return Err(self.wrong_port());
        }
        match self.next_method().await {
            Err(AmqpError::Protocol(_)) => Err(self.wrong_port()),
            other => other,
        }
    }

    fn begins_like_amqp(&self) -> bool {
        self.received.iter().zip(AMQP_BEGINS).all(|(received, expected)| *received == expected)
    }

    /// The error for the first bytes of a peer that is not RabbitMQ's AMQP listener.
    fn wrong_port(&self) -> AmqpError {
        AmqpError::WrongPort(match *self.received {
            [TLS_ALERT | TLS_HANDSHAKE, 3, ..] => {
                "it speaks TLS; use amqps://, or its port without TLS (5672 as a rule)"
            }
            [b'H', b'T', b'T', b'P', ..] => {
                "it speaks HTTP, as the management plugin does; AMQP's port is 5672 or, with amqps://, 5671 as a rule"
            }
            [b'A', b'M', b'Q', b'P', ..] => "it offers another version of AMQP only; this client speaks 0-9-1",
            [b'S', b'S', b'H', b'-', ..] => "it speaks SSH; AMQP's port is 5672 or, with amqps://, 5671 as a rule",
            _ => "what it says is not AMQP; AMQP's port is 5672 or, with amqps://, 5671 as a rule",
        })
    }

    async fn open_vhost(&mut self, vhost: &str) -> Result<(), AmqpError> {
        method::open(&mut self.out, vhost);
        match self.ask().await? {
            Method::OpenOk => Ok(()),
            Method::ConnectionClose { code: 530, text } if is_limit(&text) => Err(AmqpError::ConnectionLimit(text)),
            Method::ConnectionClose { code: code @ (402..=404 | 530), text } => {
                Err(AmqpError::Vhost { vhost: vhost.to_owned(), code, text })
            }
            other => Err(unexpected(other)),
        }
    }

    /// Sends what was written and waits for this method.
    pub(crate) async fn ask_for(&mut self, confirm: &Method) -> Result<(), AmqpError> {
        let method = self.ask().await?;
        if method == *confirm { Ok(()) } else { Err(unexpected(method)) }
    }

    /// Sends what was written and waits for the next method.
    pub(crate) async fn ask(&mut self) -> Result<Method, AmqpError> {
        self.send().await.map_err(AmqpError::Disconnected)?;
        self.next_method().await
    }

    async fn next_method(&mut self) -> Result<Method, AmqpError> {
        match self.next_content().await? {
            Content::Method(method) => Ok(method),
            other => Err(AmqpError::Protocol(format!("{other:?} was not expected"))),
        }
    }

    /// Waits for what the next frame carries.
    pub(crate) async fn next_content(&mut self) -> Result<Content, AmqpError> {
        loop {
            match next_frame(&mut self.received, self.frame_max)?.map(|frame| frame.content) {
                Some(Content::Heartbeat) => {}
                Some(content) => return Ok(content),
                None => self.receive().await?,
            }
        }
    }

    async fn receive(&mut self) -> Result<(), AmqpError> {
        match self.socket.read_buf(&mut self.received).await {
            Ok(0) => Err(AmqpError::Disconnected(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(AmqpError::Disconnected(error)),
        }
    }

    pub(crate) async fn send(&mut self) -> io::Result<()> {
        self.socket.write_all_buf(&mut self.out).await?;
        self.socket.flush().await
    }
}

/// Whether the text says that there are too many connections: the code is the same as for other refusals
/// (`rabbit_reader:is_over_vhost_connection_limit`, `…_user_…`, `…_node_…`).
fn is_limit(text: &str) -> bool {
    text.ends_with("is reached") || text.contains("limit cannot be queried")
}

/// The error for a method that was not asked for.
pub(crate) fn unexpected(method: Method) -> AmqpError {
    match method {
        Method::ConnectionClose { code, text } => AmqpError::connection_closed(code, text),
        Method::ChannelClose { code, text } => AmqpError::ChannelClosed { code, text },
        other => AmqpError::Protocol(format!("{other:?} was not expected")),
    }
}

/// The smaller limit of the broker's and the URL's, in bytes; 0 is no limit.
fn agree_on_frame_max(broker: u32, url: &AmqpUrl) -> u32 {
    let own = url.frame_max.filter(|bytes| *bytes > 0).unwrap_or(FRAME_MAX_BYTES);
    let agreed = if broker == 0 { own } else { own.min(broker) };
    agreed.max(FRAME_MIN_BYTES)
}

/// The smaller interval of the broker's and the URL's, in seconds. A 0 in the URL turns heartbeats off.
fn agree_on_heartbeat(broker: u16, url: &AmqpUrl) -> u16 {
    let own = url.heartbeat.unwrap_or(HEARTBEAT_SECONDS);
    if broker == 0 { own } else { own.min(broker) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_wish_wins() {
        let url = |text: &str| text.parse::<AmqpUrl>().unwrap();
        let (plain, set) = (url("amqp://b"), url("amqp://b?frame_max=8192&heartbeat=20"));
        assert_eq!([0, 8192, 1 << 30].map(|broker| agree_on_frame_max(broker, &plain)), [131_072, 8192, 131_072]);
        assert_eq!([0, 4096, 131_072].map(|broker| agree_on_frame_max(broker, &set)), [8192, 4096, 8192]);
        assert_eq!([0, 5, 60].map(|broker| agree_on_heartbeat(broker, &plain)), [10, 5, 10]);
        assert_eq!([0, 5, 60].map(|broker| agree_on_heartbeat(broker, &set)), [20, 5, 20]);
        assert_eq!(agree_on_heartbeat(60, &url("amqp://b?heartbeat=0")), 0);
    }
}
