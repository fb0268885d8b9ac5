//! The half of the socket that is written to.

use std::io;

use bytes::Buf;
use client_socket::Socket;
use tokio::io::{AsyncWriteExt, WriteHalf};

use crate::protocol::output::Output;

/// The socket's writing half, which knows whether it has to be flushed.
pub(crate) struct Writer {
    half: WriteHalf<Socket>,
    /// The socket got bytes that the network may not have got.
    unflushed: bool,
}

impl Writer {
    pub(crate) fn new(half: WriteHalf<Socket>) -> Self {
        Self { half, unflushed: false }
    }

    /// Whether everything has reached the network.
    pub(crate) fn is_idle(&self, out: &Output) -> bool {
        !self.unflushed && out.is_empty()
    }

    /// Writes what the socket takes now, or flushes once everything is written. Cancellation-safe: a step happens as a
    /// whole or not at all.
    pub(crate) async fn step(&mut self, out: &mut Output) -> io::Result<()> {
        if !out.has_remaining() {
            self.half.flush().await?;
            self.unflushed = false;
            return Ok(());
        }
        if self.half.write_buf(out).await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.unflushed = true;
        Ok(())
    }

    /// Writes and flushes everything.
    pub(crate) async fn finish(&mut self, out: &mut Output) -> io::Result<()> {
        while !self.is_idle(out) {
            self.step(out).await?;
        }
        Ok(())
    }

    /// Ends the socket's writing half.
    pub(crate) async fn shutdown(&mut self) -> io::Result<()> {
        self.half.shutdown().await
    }
}
