//! How a session ends.

use std::{error::Error, io, time::Duration};

use pg_replication::ReplError;
use tokio::task::JoinError;

use crate::{
    error::{RunError, chain},
    store::StoreError,
};

/// Why a session ended before every event in flight had its verdict in the table.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// The replication stream failed.
    #[error("the replication stream ended: {0}")]
    Stream(#[from] ReplError),
    /// A statement failed.
    #[error("a statement failed: {0}")]
    Store(#[from] StoreError),
    /// The SQL connection was lost.
    #[error("the database connection is lost: {0}")]
    ConnectionLost(String),
    /// The database sent a row that is larger than any event; see
    /// [`Start::row_by_row`](outbox_core::Start::row_by_row).
    #[error("{0}")]
    RowTooLarge(String),
    /// The server refused to repair the publication, which may be incomplete.
    #[error("the repair of the publication was refused: {0}")]
    RepairRefused(String),
    /// The publication was incomplete and was repaired.
    #[error("the publication is repaired")]
    PublishedAgain,
    /// The process stood still for a while, as on a frozen machine, so another relay may have taken over.
    #[error("stood still for {0:?}: another relay may have taken over")]
    StoodStill(Duration),
    /// The slot kept more WAL than its limit.
    #[error("the slot kept {kept} bytes of the WAL, and was dropped")]
    SlotDropped {
        /// Bytes of WAL that the slot kept.
        kept: u64,
        /// Whether the slot was dropped; otherwise another relay reads it.
        is_dropped: bool,
    },
    /// The stream violates PostgreSQL's protocol, or the table is not the extension's.
    #[error("the stream cannot be read: {0}")]
    Unreadable(String),
    /// The broker has never accepted this relay, and the startup waits no longer.
    #[error(transparent)]
    Broker(#[from] RunError),
    /// The drain exceeded its time limit. The rows of the unsettled events are still `PENDING`.
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
