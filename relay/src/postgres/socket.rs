//! A connected socket of any kind.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_postgres::tls::{ChannelBinding, TlsStream};
use tokio_rustls::client;

use super::channel_binding;

/// Of what is received, before the protocol asks for it. tokio-postgres reads 8 KiB at a time, or the rest of one row.
pub(super) const READ_BUFFER: usize = 64 * 1024;

/// Where the bytes go.
#[derive(Debug)]
pub enum Socket {
    /// In the clear.
    Tcp(BufReader<TcpStream>),
    /// To a server on this machine.
    Unix(BufReader<UnixStream>),
    /// Encrypted.
    Tls(Box<TlsSocket>),
}

/// TLS over TCP. rustls reads 4 KiB at a time; the buffer below it makes that one system call for many records.
pub type TlsSocket = client::TlsStream<BufReader<TcpStream>>;

impl Socket {
    /// Over TCP, not encrypted.
    pub(super) fn tcp(stream: TcpStream) -> Self {
        Self::Tcp(BufReader::with_capacity(READ_BUFFER, stream))
    }

    /// Over a socket of this machine.
    pub(super) fn unix(stream: UnixStream) -> Self {
        Self::Unix(BufReader::with_capacity(READ_BUFFER, stream))
    }

    /// Hash of the server's certificate, which SCRAM can bind a login to.
    pub(super) fn certificate_hash(&self) -> Option<Vec<u8>> {
        let Self::Tls(tls) = self else { return None };
        let (_, session) = tls.get_ref();
        channel_binding::tls_server_end_point(session.peer_certificates()?.first()?)
    }
}

impl TlsStream for Socket {
    fn channel_binding(&self) -> ChannelBinding {
        self.certificate_hash().map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// Calls the same method on whichever socket it is.
macro_rules! each {
    ($socket:expr, $inner:ident => $call:expr) => {
        match $socket.get_mut() {
            Socket::Tcp(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            Socket::Unix(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            Socket::Tls(stream) => {
                let $inner = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_shutdown(cx))
    }
}
