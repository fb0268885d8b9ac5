//! From the addresses of a cluster to connections that are logged in.

pub(crate) mod channel;
pub(crate) mod control;
pub(crate) mod error;
pub(crate) mod first;
pub(crate) mod open;
pub(crate) mod scram;
pub(crate) mod url;
