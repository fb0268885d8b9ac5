//! SQL sessions, connected by the same code as replication sessions, so that timeouts, TLS and fail-over between hosts
//! work the same.
//!
//! tokio-postgres accepts a message of any length, up to PostgreSQL's limit of 1 GB, and keeps it in memory. The socket
//! therefore checks the lengths (<https://www.postgresql.org/docs/current/protocol-message-formats.html>).

use std::{
    future::{self, Ready},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pg_replication::{
    ConnInfo, ConnectCause, ConnectError, PIN_SEARCH_PATH, Peer, ServerError, Socket, channel_binding, time_limits,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    select,
};
use tokio_postgres::{
    Client,
    config::TargetSessionAttrs,
    tls::{ChannelBinding, TlsConnect, TlsStream},
};
use tracing::debug;

use crate::error::chain;

/// Longest row that a session accepts, in bytes. The largest event has a body of 128 MiB (`outbox.max_payload_bytes`),
/// and the rest of its row is less than a tenth of a MiB.
const LARGEST_ROW: usize = 130 << 20;

/// Opens a session whose search path contains only PostgreSQL's own objects, and which has no time limit of the role's
/// or the database's settings.
///
/// Returns the client, a future that drives the connection, and the host. The future must be polled while the client is
/// used; it ends when the client is dropped or the connection breaks.
///
/// # Errors
///
/// The errors of [`ConnInfo::open`].
pub async fn connect(
    server: &ConnInfo,
    application_name: &str,
) -> Result<(Client, impl Future<Output = Result<(), tokio_postgres::Error>> + Send + use<>, Peer), ConnectError> {
    let ((client, connection), peer) = server
        .open_session(application_name, |socket, config| async move {
            let socket = Bounded::new(socket, LARGEST_ROW);
            #[expect(clippy::disallowed_methods, reason = "this is the one place: the search path is pinned below")]
            let (client, mut connection) = config.connect_raw(socket, Established).await.map_err(connect_cause)?;
            let version = connection.parameter("server_version").map(str::to_owned);
            select! {
                begun = begin(&client, version.as_deref()) => begun.map_err(connect_cause)?,
                ended = &mut connection => {
                    ended.map_err(connect_cause)?;
                    return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
                }
            }
            // PostgreSQL reports both parameters since version 14, for this purpose.
            let on = |name| connection.parameter(name) == Some("on");
            let read_only = on("in_hot_standby") || on("default_transaction_read_only");
            if read_only && config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
                return Err(ConnectCause::ReadOnly);
            }
            Ok((client, connection))
        })
        .await?;
    Ok((client, connection, peer))
}

async fn begin(client: &Client, server_version: Option<&str>) -> Result<(), tokio_postgres::Error> {
    client.batch_execute(PIN_SEARCH_PATH).await?;
    for limit in time_limits(server_version) {
        match client.batch_execute(&format!("SET {limit} = 0")).await {
            Err(error) if is_refusal(&error) => {
                debug!(target: "relay", error = chain(&error), "the session keeps its {limit}");
            }
            lifted => lifted?,
        }
    }
    Ok(())
}

/// Whether the server has refused a statement, and not ended the session.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| !ServerError::from(error).ends_the_session())
}

/// Translates a failed connection of tokio-postgres.
fn connect_cause(error: tokio_postgres::Error) -> ConnectCause {
    if let Some(refusal) = error.as_db_error() {
        return ConnectCause::Server(Box::new(refusal.into()));
    }
    let text = error.to_string();
    match error.into_source().map(|source| source.downcast::<io::Error>()) {
        Some(Ok(io)) => (*io).into(),
        Some(Err(source)) => ConnectCause::Login(format!("{text}: {source}")),
        None => ConnectCause::Unreachable(io::Error::new(io::ErrorKind::ConnectionAborted, text)), // closed
    }
}

/// A TLS connector for tokio-postgres that does nothing, because the [`Socket`] has its TLS session already.
struct Established;

impl TlsConnect<Bounded> for Established {
    type Stream = Bounded;
    type Error = io::Error;
    type Future = Ready<io::Result<Bounded>>;

    fn connect(self, socket: Bounded) -> Self::Future {
        future::ready(Ok(socket))
    }
}

/// Size of a message's tag and length, in bytes.
const HEADER: usize = 5;

/// The socket of an SQL session, which accepts messages up to a limit.
#[derive(Debug)]
struct Bounded {
    socket: Socket,
    lengths: Lengths,
}

impl Bounded {
    /// Accepts messages of up to `limit` bytes. A longer message fails the read with [`io::ErrorKind::InvalidData`].
    fn new(socket: Socket, limit: usize) -> Self {
        Self { socket, lengths: Lengths { limit, header: [0; HEADER], have: 0, left: 0 } }
    }
}

/// Reads the lengths of messages in a stream of bytes.
#[derive(Debug)]
struct Lengths {
    limit: usize,
    header: [u8; HEADER],
    /// Bytes of the header that have passed.
    have: usize,
    /// Bytes of the message behind its header that are still to pass.
    left: usize,
}

impl Lengths {
    fn pass(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let Some(room) = self.header.get_mut(self.have..) else { return Ok(()) };
            let taken = room.len().min(bytes.len());
            let (of_header, rest) = bytes.split_at(taken);
            room.iter_mut().zip(of_header).for_each(|(to, from)| *to = *from);
            self.have += taken;
            bytes = rest;
            if self.have == HEADER {
                self.have = 0;
                let [_tag, length @ ..] = self.header;
                // The length counts itself.
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX).saturating_sub(4);
                if self.left > self.limit {
                    let text =
                        format!("the server sends a row of {} bytes; at most {} are let in", self.left, self.limit);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        Ok(())
    }
}

impl AsyncRead for Bounded {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.socket).poll_read(cx, buf))?;
        Poll::Ready(this.lengths.pass(buf.filled().get(before..).unwrap_or_default()))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}

impl TlsStream for Bounded {
    fn channel_binding(&self) -> ChannelBinding {
        channel_binding(&self.socket).map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![b'D'];
        bytes.extend(u32::try_from(length + 4).unwrap().to_be_bytes());
        bytes.resize(HEADER + length, 0xff);
        bytes
    }

    proptest! {
        #[test]
        fn only_a_message_beyond_the_limit_is_stopped_however_the_bytes_arrive(
            lengths in prop::collection::vec(0_usize..40, 1..20),
            chunk in 1_usize..50,
        ) {
            let stream: Vec<u8> = lengths.iter().flat_map(|length| message(*length)).collect();
            let mut passing = Lengths { limit: 30, header: [0; HEADER], have: 0, left: 0 };
            let all = stream.chunks(chunk).try_for_each(|chunk| passing.pass(chunk));
            prop_assert_eq!(all.is_ok(), lengths.iter().all(|length| *length <= 30));
        }
    }
}
