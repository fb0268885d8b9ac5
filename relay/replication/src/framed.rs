//! Whole messages over a byte stream.
//!
//! Partly read and partly written messages live here and not in a future, so that every future of this file can be
//! dropped at any time without losing a byte.

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

/// Most bytes that one read asks for, except inside a larger message: a hundred and more rows of a few hundred bytes.
const CHUNK: usize = 64 * 1024;
/// Bytes of a message beyond which the buffer that grew for it is given back.
pub(crate) const LARGE: usize = 4 * CHUNK;
/// Longest message before the login, in bytes: a server without a login must not fill the client's memory.
pub(crate) const LOGIN_LIMIT: usize = CHUNK;
/// Longest message at all, in bytes: PostgreSQL's own limit of memory at once (`MaxAllocSize`), and the header.
pub(crate) const SESSION_LIMIT: usize = (1 << 30) + HEADER;
/// Bytes of a tag, and of a length that counts itself but not the tag.
const HEADER: usize = 5;

/// Reads and writes PostgreSQL's messages.
#[derive(Debug)]
pub(crate) struct Framed<S> {
    socket: S,
    incoming: BytesMut,
    outgoing: BytesMut,
    /// Whether the socket got bytes that it may still hold back, as TLS does.
    unflushed: bool,
    /// Longest message that is accepted, in bytes.
    limit: usize,
    /// Whether the buffer grew for a large message.
    grown: bool,
    /// Bytes that have not come yet of a message that is passed over. `incoming` is empty until they have.
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

    /// Accepts messages of up to `limit` bytes.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The buffer for bytes to be written next.
    pub(crate) fn outgoing(&mut self) -> &mut BytesMut {
        &mut self.outgoing
    }

    /// Takes the next whole message that has arrived, with its tag and length.
    pub(crate) fn take(&mut self) -> io::Result<Option<BytesMut>> {
        match self.front()? {
            Some(total) if total <= self.incoming.len() => {
                self.grown |= total > LARGE;
                Ok(Some(self.incoming.split_to(total)))
            }
            _ => Ok(None),
        }
    }

    /// The message at the front, if it is large and not whole: its length with tag and length, and the bytes that have
    /// come.
    pub(crate) fn large(&self) -> io::Result<Option<(usize, &[u8])>> {
        let total = self.front()?.filter(|total| *total > LARGE.max(self.incoming.len()));
        Ok(total.map(|total| (total, &self.incoming[..])))
    }

    /// Whether as much has arrived as one read brings.
    pub(crate) fn is_full(&self) -> bool {
        self.incoming.len() >= CHUNK
    }

    /// Passes over the message at the front, if its header has come: drops the bytes that have come, and the rest as it
    /// comes.
    pub(crate) fn pass_over(&mut self) -> io::Result<()> {
        if let Some(total) = self.front()? {
            self.passing = total;
            self.drop_passing();
        }
        Ok(())
    }

    /// How many bytes the buffer has room for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.incoming.capacity()
    }

    fn drop_passing(&mut self) {
        let here = self.passing.min(self.incoming.len());
        self.incoming.advance(here);
        self.passing -= here;
    }

    /// Waits for the next whole message, and writes outgoing bytes meanwhile. Loses nothing when dropped.
    pub(crate) async fn read(&mut self) -> io::Result<BytesMut> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            poll_fn(|cx| {
                // A connection that cannot be written to is lost, and reading returns the reason: the server's last
                // words, if any.
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

    /// Writes as much as the socket takes. Ready once nothing is left.
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

    /// Reads once. Ready once bytes have arrived.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = self.make_room()?;
        let mut limited = (&mut self.incoming).limit(room);
        // Dropping this future loses nothing, because `read_buf` is cancel safe.
        let read = ready!(pin!(self.socket.read_buf(&mut limited)).poll(cx))?;
        if read == 0 {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")));
        }
        self.drop_passing();
        Poll::Ready(Ok(()))
    }

    /// Length of the message at the front with its tag, once its header has come.
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

    /// Makes room for the next read, and returns how much of it to use at most.
    ///
    /// Memory follows the bytes that have arrived, and never a claimed length: it at most doubles, or grows by a chunk.
    fn make_room(&mut self) -> io::Result<usize> {
        let have = self.incoming.len();
        let missing = self.front()?.map_or(0, |total| total.saturating_sub(have));
        if missing > CHUNK {
            if self.incoming.capacity() - have < CHUNK {
                self.incoming.reserve(missing.min(have.max(CHUNK)));
            }
            // The read ends with the message, which is then alone in its buffer and leaves nothing to copy.
            return Ok(missing);
        }
        if self.grown {
            let mut fresh = BytesMut::with_capacity(2 * CHUNK);
            fresh.extend_from_slice(&self.incoming); // less than a chunk, as checked above
            self.incoming = fresh;
            self.grown = false;
        }
        // Reuses the buffer's front without allocating, once no slice of it is left.
        self.incoming.reserve(CHUNK);
        Ok(CHUNK)
    }
}
