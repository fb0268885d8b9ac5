//! A server for fuzzers of the clients above: it says given bytes, and listens to everything.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, Join, ReadBuf, Sink, join, sink};

/// A socket to a server that says these bytes, at most this many at once, and then hangs up.
pub fn server(says: &[u8], piece: usize) -> Join<Pieces<'_>, Sink> {
    join(Pieces { says, piece }, sink())
}

/// Whether the server's own bytes contain the secret: a client that repeats a server's words may then repeat it.
pub fn says_itself(says: &[u8], secret: &str) -> bool {
    says.windows(secret.len()).any(|said| said == secret.as_bytes())
}

/// The server's bytes that are left to say.
pub struct Pieces<'a> {
    says: &'a [u8],
    piece: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let length = this.piece.min(this.says.len()).min(buf.remaining());
        let (said, rest) = this.says.split_at(length);
        this.says = rest;
        buf.put_slice(said);
        Poll::Ready(Ok(()))
    }
}
