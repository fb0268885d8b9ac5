//! Records in, a certain confirm for each out.

mod broker;
pub(crate) mod cluster;
pub(crate) mod confirm;
mod partition;
pub(crate) mod producer;
mod task;
mod topic;
