//! Whole messages over a byte stream.
//!
//! What has been read of a message, or not yet written of one, lives here and not in a future, so that every future of
//! this file can be dropped at any time without losing a byte.

#[cfg(test)]
mod tests;

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// Most that one read asks for, except inside a larger message. A hundred and more rows of a few hundred bytes.
const CHUNK: usize = 64 * 1024;
/// After a message longer than this the buffer, which grew for it, is given back.
pub(crate) const LARGE: usize = 4 * CHUNK;
/// Longest message of a session that has not authenticated: nobody should fill our memory before.
pub(crate) const LOGIN_LIMIT: usize = CHUNK;
/// Longest message at all: what PostgreSQL can hold in memory at once (`MaxAllocSize`), and the header.
pub(crate) const SESSION_LIMIT: usize = (1 << 30) + HEADER;
/// A tag and a length that counts itself but not the tag.
const HEADER: usize = 5;

/// Reads and writes PostgreSQL's messages.
#[derive(Debug)]
pub(crate) struct Framed<S> {
    socket: S,
    incoming: BytesMut,
    outgoing: BytesMut,
    /// Something was written that the socket may still hold back (TLS does).
    unflushed: bool,
    /// Longest message that is let in.
    limit: usize,
    /// The buffer grew for a large message.
    grown: bool,
    /// Bytes still to come of a message that is passed over. `incoming` is empty until they have.
    passing: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Framed<S> {
    pub(crate) fn new(socket: S) -> Self {
        let incoming = BytesMut::with_capacity(2 * CHUNK);
        Self {
            socket,
            incoming,
            outgoing: BytesMut::new(),
            unflushed: false,
            limit: LOGIN_LIMIT,
            grown: false,
            passing: 0,
        }
    }

    /// Lets messages of up to `limit` bytes in.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Where to put what should be written next.
    pub(crate) fn outgoing(&mut self) -> &mut BytesMut {
        &mut self.outgoing
    }

    /// Takes the next whole message, tag and length included, out of what has arrived.
    pub(crate) fn take(&mut self) -> io::Result<Option<BytesMut>> {
        match self.front()? {
            Some(total) if total <= self.incoming.len() => {
                self.grown |= total > LARGE;
                Ok(Some(self.incoming.split_to(total)))
            }
            _ => Ok(None),
        }
    }

    /// The message at the front, if it is a large one of which more is to come: its length, tag and length included, and
    /// what is here.
    pub(crate) fn large(&self) -> io::Result<Option<(usize, &[u8])>> {
        let total = self.front()?.filter(|total| *total > LARGE.max(self.incoming.len()));
        Ok(total.map(|total| (total, &self.incoming[..])))
    }

    /// Whether as much is here as one read brings.
    pub(crate) fn is_full(&self) -> bool {
        self.incoming.len() >= CHUNK
    }

    /// Passes over the message at the front, if its header is in: what is here is dropped, and the rest as it arrives.
    pub(crate) fn pass_over(&mut self) -> io::Result<()> {
        if let Some(total) = self.front()? {
            self.passing = total;
            self.drop_passing();
        }
        Ok(())
    }

    /// What the buffer has room for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.incoming.capacity()
    }

    fn drop_passing(&mut self) {
        let here = self.passing.min(self.incoming.len());
        self.incoming.advance(here);
        self.passing -= here;
    }

    /// Waits for the next whole message, and writes what is to be written meanwhile. Loses nothing when dropped.
    pub(crate) async fn read(&mut self) -> io::Result<BytesMut> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            poll_fn(|cx| {
                // A connection that cannot be written to is lost, and reading will tell why: with the server's last
                // words, if it had some.
                let _ = self.poll_write(cx);
                self.poll_read(cx)
            })
            .await?;
        }
    }

    /// Waits until everything is written. Loses nothing when dropped.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_write(cx)).await
    }

    /// Writes as much as the socket takes; ready when nothing is left.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.outgoing.has_remaining() {
            let written = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.outgoing))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.advance(written);
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once; ready when something has arrived.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = self.make_room()?;
        let mut limited = (&mut self.incoming).limit(room);
        // Dropping this future loses nothing: `read_buf` is cancel safe.
        let read = ready!(pin!(self.socket.read_buf(&mut limited)).poll(cx))?;
        if read == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")));
        }
        self.drop_passing();
        Poll::Ready(Ok(()))
    }

    /// Length of the message at the front, tag included, once its header is in.
    fn front(&self) -> io::Result<Option<usize>> {
        let Some((_tag, rest)) = self.incoming.split_first() else { return Ok(None) };
        let Some(length) = rest.first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes(*length);
        match usize::try_from(length).ok().and_then(|length| length.checked_add(1)) {
            Some(total) if (HEADER..=self.limit).contains(&total) => Ok(Some(total)),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the server announced a message of {length} bytes; at most {} are let in", self.limit),
            )),
        }
    }

    /// Makes room for the next read and says how much of it to use at most.
    ///
    /// Memory follows what has arrived, never what a length claims: at most as much again, or a chunk.
    fn make_room(&mut self) -> io::Result<usize> {
        let have = self.incoming.len();
        let missing = self.front()?.map_or(0, |total| total.saturating_sub(have));
        if missing > CHUNK {
            if self.incoming.capacity() - have < CHUNK {
                self.incoming.reserve(missing.min(have.max(CHUNK)));
            }
            // Not beyond the message's end, so that it is alone in its buffer and leaves nothing to copy behind it.
            return Ok(missing);
        }
        if self.grown {
            let mut fresh = BytesMut::with_capacity(2 * CHUNK);
            fresh.extend_from_slice(&self.incoming); // less than a chunk, see above
            self.incoming = fresh;
            self.grown = false;
        }
        // Takes the buffer's front back without allocating, once nobody holds a slice of it any more.
        self.incoming.reserve(CHUNK);
        Ok(CHUNK)
    }
}
