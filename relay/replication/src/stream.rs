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

/// How long [`ReplicationStream::stop`] waits for the server's goodbye. It comes at once, unless the server is in the
/// middle of a large transaction: it sends that whole one first.
const STOP_DEADLINE: Duration = Duration::from_secs(2);

/// WAL coming in, statuses going out.
///
/// No method loses anything when its future is dropped, so all can stand in a `select!`. Reads and writes do not wait
/// for each other: statuses go out while nobody reads, and frames come in while the server takes no status.
#[derive(Debug)]
pub struct ReplicationStream<S = Socket> {
    framed: Framed<S>,
    /// The server process at the other end.
    pid: i32,
    /// Longest insert that is handed out whole.
    insert_limit: usize,
    /// What the next status will say. One at a time is written; later ones merge here until it is out, which bounds
    /// what waits however long the server does not read.
    unsent: Option<Status>,
    /// What the last status said.
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

    /// Since when the server has said nothing, if it does not answer either when it is asked whether it is there.
    pub fn silent_since(&self) -> Option<Instant> {
        self.silence.since().map(Into::into)
    }

    /// From now on an insert of more bytes than that is not held in memory: a [`Frame::Oversized`] says that there was one.
    ///
    /// What nobody here reads is never held in memory beyond some 256 KiB, whoever wrote it, and is passed over without a
    /// frame: longer logical messages, updates, deletes.
    pub fn limit_inserts(&mut self, bytes: usize) {
        self.insert_limit = bytes;
    }

    /// Waits for the next frame, and finishes writing statuses meanwhile. Cancellation safe.
    ///
    /// A server that is silent for ten seconds is asked for a keepalive.
    ///
    /// # Errors
    ///
    /// The server ended the stream, or has said nothing for a minute, or the connection broke. There is no frame after an error.
    pub async fn next(&mut self) -> Result<Frame, ReplError> {
        loop {
            if let Some(frame) = self.try_next()? {
                return Ok(frame);
            }
            poll_fn(|cx| self.poll_hear(cx)).await?;
        }
    }

    /// Waits until the server has been silent for too long, while no frame is wanted: reads a little ahead, to know. Does not end
    /// otherwise: [`next`](Self::next) tells what else goes wrong. Cancellation safe.
    pub async fn silent(&mut self) -> ReplError {
        poll_fn(|cx| {
            while !self.framed.is_full() {
                match ready!(self.poll_hear(cx)) {
                    Ok(()) => {}
                    Err(silent @ ReplError::Silent(_)) => return Poll::Ready(silent),
                    Err(_) => return Poll::Pending,
                }
            }
            self.silence.heard(); // what waits here was said
            Poll::Pending
        })
        .await
    }

    fn poll_hear(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReplError>> {
        loop {
            // A connection that cannot be written to is lost, and reading will tell why.
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

    /// The next frame of what has been received already. One `next` usually brings many.
    ///
    /// # Errors
    ///
    /// As for [`next`](Self::next).
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

    /// Tells the server that everything before `flushed` is done with here, and with `wants_keepalive` asks it for one.
    ///
    /// Never waits: what the socket does not take now goes out with the next call of any method here. A position
    /// behind an earlier one says the earlier one again, because some servers would move the slot back.
    ///
    /// # Errors
    ///
    /// The connection broke. What the server said last can still be read with [`next`](Self::next).
    pub async fn status(&mut self, flushed: Lsn, wants_keepalive: bool) -> Result<(), ReplError> {
        self.flushed = self.flushed.max(flushed);
        self.unsent = Some(Status { flushed: self.flushed, reply: wants_keepalive }.merge(self.unsent));
        // Not held back by what else the task did since it was scheduled: the next attempt may be an interval away.
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
    /// As for [`status`](Self::status).
    pub async fn flush(&mut self) -> Result<(), ReplError> {
        Ok(poll_fn(|cx| self.poll_send(cx)).await?)
    }

    /// Ends the stream in good order: the server has the last status and has let go of the slot when this returns.
    ///
    /// Does its best for two seconds. If that is not enough the connection is closed all the same, and the server
    /// notices a moment later.
    pub async fn stop(mut self) {
        match timeout(STOP_DEADLINE, self.end()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the stream broke while it was being ended"),
            Err(_) => tracing::debug!("the server did not end the stream in time"),
        }
    }

    async fn end(&mut self) -> io::Result<()> {
        poll_fn(|cx| {
            // Frames are dropped meanwhile: a server that blocks on sending them would not read.
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

    /// The next message, without those that are large: no frame is of use any more.
    fn take_last_words(&mut self) -> io::Result<Option<BytesMut>> {
        let message = self.framed.take()?;
        if message.is_none() && self.framed.large()?.is_some() {
            self.framed.pass_over()?;
        }
        Ok(message)
    }

    /// Writes what waits, one status after the other.
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

/// Reads one message of a running stream; `None` for one that says nothing to the caller.
fn read(mut message: BytesMut) -> Result<Option<Frame>, ReplError> {
    match message.first() {
        Some(b'd') => {
            message.advance(5); // tag and length
            Frame::parse(message.freeze()).map_err(|_| ReplError::Protocol("a frame ends too early"))
        }
        // End of the stream from the server: CopyDone, or at a shutdown CommandComplete straight away.
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
            Ok(Some(Message::ParameterStatus(_))) => Ok(None), // a reload changed a setting
            _ => Err(ReplError::Protocol("a message that has no place in a stream")),
        },
    }
}
