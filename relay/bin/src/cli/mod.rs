//! The program's edges: exit codes, signals, panics, the log.

pub(crate) mod exit;
pub(crate) mod logging;
pub(crate) mod panic;
pub(crate) mod signal;
