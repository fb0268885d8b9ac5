//! A connected socket of any kind.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::SystemTime,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::client::TlsStream;

use crate::certificate::not_after;

/// Of what is received, before the protocol asks for it. Clients that read a few KiB at a time make no system call for each.
const READ_BUFFER: usize = 64 * 1024;

/// A connected socket, read through a buffer: over TCP, to a server on this machine, or encrypted.
#[derive(Debug)]
pub struct Socket(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(BufReader<TcpStream>),
    Unix(BufReader<UnixStream>),
    /// rustls reads 4 KiB at a time; the buffer below it makes that one system call for many records.
    Tls(Box<TlsStream<BufReader<TcpStream>>>),
}

impl Socket {
    /// Over TCP, not encrypted.
    pub fn tcp(stream: TcpStream) -> Self {
        Self(Kind::Tcp(BufReader::with_capacity(READ_BUFFER, stream)))
    }

    /// Over a Unix socket, not encrypted.
    pub fn unix(stream: UnixStream) -> Self {
        Self(Kind::Unix(BufReader::with_capacity(READ_BUFFER, stream)))
    }

    pub(crate) fn tls(stream: TlsStream<BufReader<TcpStream>>) -> Self {
        Self(Kind::Tls(Box::new(stream)))
    }

    /// The peer's certificate in DER; `None` where nothing is encrypted.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        let Kind::Tls(tls) = &self.0 else { return None };
        let (_, session) = tls.get_ref();
        session.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Until when the peer's certificate is good; `None` where nothing is encrypted, or the certificate cannot be read.
    pub fn certificate_expires(&self) -> Option<SystemTime> {
        not_after(self.peer_certificate()?)
    }
}

/// Calls the same method on whichever socket it is.
macro_rules! each {
    ($socket:expr, $inner:ident => $call:expr) => {
        match &mut $socket.get_mut().0 {
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

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_shutdown(cx))
    }
}
