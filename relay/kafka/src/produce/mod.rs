//! Records in, a certain confirm for each out.

mod broker;
mod cluster;
pub(crate) mod codes;
pub(crate) mod confirm;
mod partition;
pub(crate) mod producer;
mod task;
mod topic;
mod wire;
