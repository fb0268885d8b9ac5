//! Where a session's events come from, beside the table: the slot's stream, once the slot is made.

use std::{fmt, future::Future, pin::Pin, time::Instant};

use pg_replication::{Frame, Lsn, ReplError, ReplicationStream};

/// The slot's stream, or what will become of it.
#[derive(Debug)]
pub(crate) enum Source {
    /// The stream runs.
    Stream(Box<ReplicationStream>),
    /// The slot is being made, which waits for older transactions. It is this relay's all the same: nobody else can read it.
    Making(Making),
}

/// A slot that is being made, and then read.
pub(crate) struct Making {
    /// The server process that makes it.
    pub(crate) pid: i32,
    /// Makes it, and starts its stream. Whoever drops this gives the slot up.
    pub(crate) start: Pin<Box<dyn Future<Output = Result<ReplicationStream, ReplError>> + Send>>,
}

impl fmt::Debug for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Making").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// What a source has brought.
pub(super) enum Brought {
    Frame(Frame),
    /// The slot is made, and its stream has started.
    Stream,
}

impl Source {
    /// The server process at the other end.
    pub(super) fn pid(&self) -> i32 {
        match self {
            Self::Stream(stream) => stream.pid(),
            Self::Making(making) => making.pid,
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// What comes next, or why there is nothing any more. Frames come only if they are wanted; a server that has fallen silent is
    /// noticed in any case. Cancellation-safe.
    pub(super) async fn next(&mut self, wants_frame: bool) -> Result<Brought, ReplError> {
        match self {
            Self::Stream(stream) if wants_frame => stream.next().await.map(Brought::Frame),
            Self::Stream(stream) => Err(stream.silent().await),
            Self::Making(making) => {
                *self = Self::Stream(Box::new(making.start.as_mut().await?));
                Ok(Brought::Stream)
            }
        }
    }

    /// The next frame, if it has come already.
    pub(super) fn try_next(&mut self) -> Result<Option<Frame>, ReplError> {
        match self {
            Self::Stream(stream) => stream.try_next(),
            Self::Making(_) => Ok(None),
        }
    }

    /// Tells the server how far the WAL is worked off.
    pub(super) async fn acknowledge(&mut self, position: Lsn) -> Result<(), ReplError> {
        match self {
            Self::Stream(stream) => stream.status(position, false).await,
            Self::Making(_) => Ok(()),
        }
    }

    /// Since when the server is silent, although it was asked whether it is there.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        match self {
            Self::Stream(stream) => stream.silent_since(),
            Self::Making(_) => None,
        }
    }

    pub(super) async fn stop(self) {
        if let Self::Stream(stream) = self {
            stream.stop().await;
        }
    }
}
