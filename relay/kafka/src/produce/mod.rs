//! Records in, a certain confirm for each out.

mod broker;
mod brokers;
pub(crate) mod cluster;
pub(crate) mod confirm;
pub(crate) mod confirms;
mod partition;
pub(crate) mod producer;
mod task;
mod topic;
