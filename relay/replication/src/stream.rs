//! A running stream.

mod silence;
#[cfg(test)]
mod tests;

use std::{
    future::poll_fn,
    io,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::{Buf, BytesMut};
use client_socket::Socket;
use postgres_protocol::message::{backend::Message, frontend};
use tokio::{task::unconstrained, time::timeout};

use self::silence::{Due, LIMIT, Silence};
use crate::{
    error::ReplError,
    frame::{Frame, Large, Status},
    framed::Framed,
    lsn::Lsn,
    server_error::ServerError,
};

/// How long [`ReplicationStream::stop`] waits for the server's goodbye. It comes at once, unless the server is sending
/// a large transaction, which it completes first.
const STOP_DEADLINE: Duration = Duration::from_secs(2);

/// WAL coming in, statuses going out.
///
/// Dropping a method's future loses nothing, so every method can stand in a `select!`. Reads and writes do not wait for
/// each other: statuses go out while nobody reads, and frames come in while the server takes no status.
#[derive(Debug)]
pub struct ReplicationStream<S = Socket> {
    framed: Framed<S>,
    /// Id of the server process.
    pid: i32,
    /// Longest insert that is handed out whole, in bytes.
    insert_limit: usize,
    /// The next status. One status at a time is written, and later ones merge here meanwhile, so that their memory is
    /// bounded even if the server does not read.
    unsent: Option<Status>,
    /// The position in the last status.
    flushed: Lsn,
    silence: Silence,
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> ReplicationStream<S> {
    pub(crate) fn new(framed: Framed<S>, pid: i32) -> Self {
        Self { framed, pid, insert_limit: usize::MAX, unsent: None, flushed: Lsn(0), silence: Silence::new() }
    }

    /// Id of the server process that streams.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Since when the server has been silent, if it has not answered a question either.
    pub fn silent_since(&self) -> Option<Instant> {
        self.silence.since().map(Into::into)
    }

    /// Sets the longest insert, in bytes, that is held in memory. A [`Frame::Oversized`] stands for a longer one.
    ///
    /// Logical messages, updates and deletes of more than some 256 KiB are never held in memory, and are passed over
    /// without a frame.
    pub fn limit_inserts(&mut self, bytes: usize) {
        self.insert_limit = bytes;
    }

    /// Waits for the next frame, and finishes writing statuses meanwhile. Cancellation safe.
    ///
    /// A server that is silent for ten seconds is asked for a keepalive.
    ///
    /// # Errors
    ///
    /// The server ended the stream or has been silent for a minute, or the connection broke. No frame follows an error.
    pub async fn next(&mut self) -> Result<Frame, ReplError> {
        loop {
            if let Some(frame) = self.try_next()? {
                return Ok(frame);
            }
            poll_fn(|cx| self.poll_hear(cx)).await?;
        }
    }

    /// Waits until the server has been silent for too long, while no frame is wanted, and reads a little ahead for
    /// that. Any other end is left to [`next`](Self::next). Cancellation safe.
    pub async fn silent(&mut self) -> ReplError {
        poll_fn(|cx| {
            while !self.framed.is_full() {
                match ready!(self.poll_hear(cx)) {
                    Ok(()) => {}
                    Err(silent @ ReplError::Silent(_)) => return Poll::Ready(silent),
                    Err(_) => return Poll::Pending,
                }
            }
            self.silence.heard(); // waiting bytes break the silence
            Poll::Pending
        })
        .await
    }

    fn poll_hear(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReplError>> {
        loop {
            // A connection that cannot be written to is lost, and reading returns the reason.
            let _ = self.poll_send(cx);
            if let Poll::Ready(read) = self.framed.poll_read(cx) {
                self.silence.heard();
                return Poll::Ready(read.map_err(Into::into));
            }
            match ready!(self.silence.poll(cx)) {
                Due::Ask => self.unsent = Some(Status { flushed: self.flushed, reply: true }.merge(self.unsent)),
                Due::GiveUp => return Poll::Ready(Err(ReplError::Silent(LIMIT))),
            }
        }
    }

    /// The next frame that has been received already. One `next` usually brings many.
    ///
    /// # Errors
    ///
    /// See [`next`](Self::next).
    pub fn try_next(&mut self) -> Result<Option<Frame>, ReplError> {
        loop {
            while let Some(message) = self.framed.take()? {
                if let Some(frame) = read(message)? {
                    return Ok(Some(frame));
                }
            }
            let Some((length, here)) = self.framed.large()? else { return Ok(None) };
            match Large::judge(length, here, self.insert_limit) {
                Large::Wanted => return Ok(None),
                Large::Unwanted => {
                    tracing::debug!(bytes = length, "passed over a part of the stream that nobody reads");
                    self.framed.pass_over()?;
                }
                Large::Oversized { bytes, head } => {
                    self.framed.pass_over()?;
                    return Ok(Some(Frame::Oversized { bytes, head }));
                }
            }
        }
    }

    /// Tells the server that everything before `flushed` is done with. `wants_keepalive` asks for a keepalive.
    ///
    /// Never waits: bytes that the socket does not take now go out with the next call of any method. A position behind
    /// an earlier one repeats the earlier one, because some servers would move the slot back.
    ///
    /// # Errors
    ///
    /// The connection broke. The server's last words can still be read with [`next`](Self::next).
    pub async fn status(&mut self, flushed: Lsn, wants_keepalive: bool) -> Result<(), ReplError> {
        self.flushed = self.flushed.max(flushed);
        self.unsent = Some(Status { flushed: self.flushed, reply: wants_keepalive }.merge(self.unsent));
        // Tokio's budget of the task must not hold the status back: the next attempt may be an interval away.
        unconstrained(poll_fn(|cx| match self.poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
        }))
        .await
    }

    /// Waits until every status is written. Cancellation safe.
    ///
    /// # Errors
    ///
    /// See [`status`](Self::status).
    pub async fn flush(&mut self) -> Result<(), ReplError> {
        Ok(poll_fn(|cx| self.poll_send(cx)).await?)
    }

    /// Ends the stream in good order: when this returns, the server has the last status and has released the slot.
    ///
    /// After two seconds the connection is closed in any case, and the server notices a moment later.
    pub async fn stop(mut self) {
        match timeout(STOP_DEADLINE, self.end()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the stream broke while it was being ended"),
            Err(_) => tracing::debug!("the server did not end the stream in time"),
        }
    }

    async fn end(&mut self) -> io::Result<()> {
        poll_fn(|cx| {
            // Frames are read and dropped meanwhile, because a server that blocks on sending does not read.
            loop {
                while self.take_last_words()?.is_some() {}
                match (self.poll_send(cx), self.framed.poll_read(cx)) {
                    (Poll::Pending, Poll::Ready(read)) => read?,
                    (sent, _) => return sent,
                }
            }
        })
        .await?;
        frontend::copy_done(self.framed.outgoing());
        loop {
            match self.take_last_words()? {
                Some(message) if message.first() == Some(&b'Z') => break,
                Some(_) => {}
                None => {
                    poll_fn(|cx| {
                        let _ = self.framed.poll_write(cx);
                        self.framed.poll_read(cx)
                    })
                    .await?;
                }
            }
        }
        frontend::terminate(self.framed.outgoing());
        self.framed.flush().await
    }

    /// The next message that is not large, at the end of a stream: no frame is wanted any more.
    fn take_last_words(&mut self) -> io::Result<Option<BytesMut>> {
        let message = self.framed.take()?;
        if message.is_none() && self.framed.large()?.is_some() {
            self.framed.pass_over()?;
        }
        Ok(message)
    }

    /// Writes the waiting statuses one after the other.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.framed.poll_write(cx))?;
            match self.unsent.take() {
                Some(status) => status.encode(self.framed.outgoing()),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// Reads one message of a running stream; `None` if it does not concern the caller.
fn read(mut message: BytesMut) -> Result<Option<Frame>, ReplError> {
    match message.first() {
        Some(b'd') => {
            message.advance(5); // tag and length
            Frame::parse(message.freeze()).map_err(|_| ReplError::Protocol("a frame ends too early"))
        }
        // The server's end of the stream: CopyDone, or at a shutdown CommandComplete at once.
        Some(b'c' | b'C') => Err(ReplError::Ended),
        _ => match Message::parse(&mut message) {
            Ok(Some(Message::ErrorResponse(body))) => Err(ReplError::Stream(Box::new(ServerError::from_error(&body)))),
            Ok(Some(Message::NoticeResponse(body))) => {
                let notice = ServerError::from_notice(&body);
                if notice.severity == "WARNING" {
                    return Ok(Some(Frame::Warning(Box::new(notice))));
                }
                tracing::debug!(%notice, "notice from the server");
                Ok(None)
            }
            Ok(Some(Message::ParameterStatus(_))) => Ok(None), // a reload has changed a setting
            _ => Err(ReplError::Protocol("a message that has no place in a stream")),
        },
    }
}
