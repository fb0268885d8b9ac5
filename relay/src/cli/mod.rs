//! The program's edges: exit codes, signals, the log.

pub(crate) mod exit;
pub(crate) mod logging;
pub(crate) mod signal;
