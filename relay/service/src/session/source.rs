//! The source of a session's events beside the table: the slot's stream, once the slot is created.

use std::{fmt, future::Future, pin::Pin, time::Instant};

use pg_replication::{Frame, Lsn, ReplError, ReplicationStream};

/// The slot's stream, or the slot that is being created for it.
#[derive(Debug)]
pub(crate) enum Source {
    /// The stream runs.
    Stream(Box<ReplicationStream>),
    /// The slot is being created, which waits for older transactions. It already belongs to this relay, as nobody else
    /// can read it.
    Making(Making),
}

/// The creation of a slot and the start of its stream.
pub(crate) struct Making {
    /// The server process that creates the slot.
    pub(crate) pid: i32,
    /// Creates the slot and starts its stream; dropping the future gives the slot up.
    pub(crate) start: Pin<Box<dyn Future<Output = Result<ReplicationStream, ReplError>> + Send>>,
}

impl fmt::Debug for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Making").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// News from a source.
pub(super) enum Brought {
    /// A frame of the stream.
    Frame(Frame),
    /// The slot was created, and its stream has started.
    Stream,
}

impl Source {
    /// The server process that streams, or creates the slot.
    pub(super) fn pid(&self) -> i32 {
        match self {
            Self::Stream(stream) => stream.pid(),
            Self::Making(making) => making.pid,
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Waits for the next news, or for the error that ends the source. Frames are returned only if `wants_frame`; a
    /// silent server is noticed in any case. Cancellation-safe.
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

    /// The next frame, if it has arrived already.
    pub(super) fn try_next(&mut self) -> Result<Option<Frame>, ReplError> {
        match self {
            Self::Stream(stream) => stream.try_next(),
            Self::Making(_) => Ok(None),
        }
    }

    /// Acknowledges the WAL to the server up to `position`.
    pub(super) async fn acknowledge(&mut self, position: Lsn) -> Result<(), ReplError> {
        match self {
            Self::Stream(stream) => stream.status(position, false).await,
            Self::Making(_) => Ok(()),
        }
    }

    /// Since when the server has not answered a status update that asked for an answer.
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
