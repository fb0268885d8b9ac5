//! From a URL to a connection on which a channel is open, and how its end is noticed.

use std::time::Duration;

pub(crate) mod connect_error;
pub(crate) mod dial;
pub(crate) mod error;
pub(crate) mod handshake;
pub(crate) mod liveness;
mod open;
pub(crate) mod url;
pub(crate) mod writer;

/// How long the broker may take to say goodbye.
pub(crate) const CLOSE_PATIENCE: Duration = Duration::from_secs(1);
