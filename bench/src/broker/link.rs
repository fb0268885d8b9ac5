//! A connection with one open channel in confirm mode, over a blocking socket.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use amqp_publisher::{
    ExchangeUse, PublishConfig,
    raw::{self, Incoming},
};
use bytes::BytesMut;
use harness::Vhost;

/// The most that one read brings, in bytes: twice RabbitMQ's longest frame, so that one read brings many small ones.
const READ_BYTES: usize = 256 * 1024;
/// No answer takes longer.
const LONG: Duration = Duration::from_secs(30);

/// How a client of the benchmark connects: to an exchange that is there, with up to `window` messages unconfirmed.
pub(crate) fn publish_config(url: &str, exchange: &str, window: u64) -> PublishConfig {
    PublishConfig {
        try_first: None,
        try_last: None,
        url: format!("{url}?heartbeat=0").parse().expect("an AMQP URL"),
        exchange: exchange.to_owned(),
        exchange_use: ExchangeUse::Take,
        app_id: "outbox-relay".to_owned(),
        window: usize::try_from(window).expect("a small number"),
        side_channels: 0,
        confirm_timeout: LONG,
        connect_timeout: LONG,
        reopen_after: Duration::from_millis(5),
        prove: false,
        connection_name: "bench".to_owned(),
        product: "bench".to_owned(),
        version: String::new(),
    }
}

/// Dropping it closes the socket.
pub(crate) struct Link {
    socket: TcpStream,
    received: BytesMut,
    buffer: Vec<u8>,
}

impl Link {
    /// Connects, logs in and opens the channel.
    pub(crate) async fn open(vhost: &Vhost, exchange: &str) -> Self {
        let socket =
            tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, vhost.port())).await.expect("RabbitMQ listens");
        let opened = raw::open(&publish_config(&vhost.url(), exchange, 1), socket).await;
        let (socket, received) = opened.unwrap_or_else(|e| panic!("no channel: {e}"));
        let socket = socket.into_std().expect("a socket");
        socket.set_nonblocking(false).and_then(|()| socket.set_nodelay(true)).expect("options of the socket");
        Self { socket, received, buffer: vec![0; READ_BYTES] }
    }

    /// A second handle of the socket.
    pub(super) fn socket(&self) -> TcpStream {
        self.socket.try_clone().expect("a second handle of the socket")
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap_or_else(|e| panic!("writing to RabbitMQ: {e}"));
    }

    /// Waits for more bytes.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn read(&mut self) -> io::Result<()> {
        let length = self.socket.read(&mut self.buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.received.extend_from_slice(self.buffer.get(..length).expect("a read is no longer than its buffer"));
        Ok(())
    }

    /// The next frame of what was read.
    pub(super) fn next(&mut self) -> Option<Incoming> {
        raw::next(&mut self.received).unwrap_or_else(|e| panic!("reading from RabbitMQ: {e}"))
    }
}
