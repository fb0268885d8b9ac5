//! A connected socket of any kind.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::SystemTime,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::client::TlsStream;

use crate::certificate::{Expiry, not_after};

/// Bytes that are received ahead, so that a client that reads a few KiB at a time makes no system call for each read.
const READ_BUFFER: usize = 64 * 1024;

/// A connected socket, read through a buffer: plain TCP, a Unix socket, or TLS over TCP.
#[derive(Debug)]
pub struct Socket {
    kind: Kind,
    /// Until when the client's own certificate is valid.
    client_expires: Option<SystemTime>,
}

#[derive(Debug)]
enum Kind {
    Tcp(BufReader<TcpStream>),
    Unix(BufReader<UnixStream>),
    /// rustls reads 4 KiB at a time, and the buffer below it makes one system call for many records.
    Tls(Box<TlsStream<BufReader<TcpStream>>>),
}

impl Socket {
    /// A socket over TCP, not encrypted.
    pub fn tcp(stream: TcpStream) -> Self {
        Self::plain(Kind::Tcp(BufReader::with_capacity(READ_BUFFER, stream)))
    }

    /// A Unix socket, not encrypted.
    pub fn unix(stream: UnixStream) -> Self {
        Self::plain(Kind::Unix(BufReader::with_capacity(READ_BUFFER, stream)))
    }

    fn plain(kind: Kind) -> Self {
        Self { kind, client_expires: None }
    }

    pub(crate) fn tls(stream: TlsStream<BufReader<TcpStream>>, client_expires: Option<SystemTime>) -> Self {
        Self { kind: Kind::Tls(Box::new(stream)), client_expires }
    }

    /// The peer's address; `None` of a Unix socket, and after the peer has gone.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let stream = match &self.kind {
            Kind::Tcp(stream) => stream,
            Kind::Unix(_) => return None,
            Kind::Tls(tls) => tls.get_ref().0,
        };
        stream.get_ref().peer_addr().ok()
    }

    /// The peer's certificate in DER; `None` without encryption.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        let Kind::Tls(tls) = &self.kind else { return None };
        let (_, session) = tls.get_ref();
        session.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Until when the certificates of both sides are valid.
    pub fn expiry(&self) -> Expiry {
        Expiry { server: self.peer_certificate().and_then(not_after), client: self.client_expires }
    }
}

/// Calls a method on the inner socket, of whatever kind.
macro_rules! each {
    ($socket:expr, $inner:ident => $call:expr) => {
        match &mut $socket.get_mut().kind {
            Kind::Tcp(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            Kind::Unix(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            Kind::Tls(stream) => {
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

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.kind {
            Kind::Tcp(stream) => stream.is_write_vectored(),
            Kind::Unix(stream) => stream.is_write_vectored(),
            Kind::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_shutdown(cx))
    }
}
