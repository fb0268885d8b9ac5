//! How a session ends.

use std::{error::Error, io, time::Duration};

use pg_replication::ReplError;
use tokio::task::JoinError;

use crate::{
    error::{RunError, chain},
    store::StoreError,
};

/// Why a session ended before everything in flight had its verdict in the table.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// The replication stream failed.
    #[error("the replication stream ended: {0}")]
    Stream(#[from] ReplError),
    /// A statement failed.
    #[error("a statement failed: {0}")]
    Store(#[from] StoreError),
    /// The SQL connection is gone.
    #[error("the database connection is lost: {0}")]
    ConnectionLost(String),
    /// The database sent a row that is larger than any event; see [`Start::row_by_row`](outbox_core::Start::row_by_row).
    #[error("{0}")]
    RowTooLarge(String),
    /// The publication was to be repaired, and that was refused: it may be of no use now.
    #[error("the repair of the publication was refused: {0}")]
    RepairRefused(String),
    /// The publication was of no use, and is repaired.
    #[error("the publication is repaired")]
    PublishedAgain,
    /// The process was stopped for a while, as a frozen machine is: another relay may have taken over.
    #[error("stood still for {0:?}: another relay may have taken over")]
    StoodStill(Duration),
    /// The slot kept more of the WAL than it may.
    #[error("the slot kept {kept} bytes of the WAL, and was dropped")]
    SlotDropped {
        /// What it kept, in bytes.
        kept: u64,
        /// Whether it was dropped; otherwise another relay has taken it.
        is_dropped: bool,
    },
    /// The stream is not what PostgreSQL's protocol says, or the table not the extension's.
    #[error("the stream cannot be read: {0}")]
    Unreadable(String),
    /// The broker has never let this relay in, and is not to be waited for any longer.
    #[error(transparent)]
    Broker(#[from] RunError),
    /// It was told to stop, and the drain's time ran out. The rows of these events are still `PENDING`.
    #[error("{unsettled} events had no verdict at the deadline")]
    DrainTimeout {
        /// Events in memory without a written verdict.
        unsettled: usize,
    },
}

pub(super) fn connection_lost(ended: Option<Result<Result<(), tokio_postgres::Error>, JoinError>>) -> SessionError {
    SessionError::ConnectionLost(match ended {
        Some(Ok(Err(error))) if is_too_large(&error) => return SessionError::RowTooLarge(chain(&error)),
        Some(Ok(Err(error))) => chain(&error),
        Some(Err(error)) => error.to_string(),
        Some(Ok(Ok(()))) | None => "closed".to_owned(),
    })
}

fn is_too_large(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::InvalidData)
}
