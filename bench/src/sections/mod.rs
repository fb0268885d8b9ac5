//! What can be measured by itself, a module each.

pub(crate) mod ceiling;
pub(crate) mod emit;
pub(crate) mod kafka;
pub(crate) mod latency;
pub(crate) mod publisher;
pub(crate) mod retention;
pub(crate) mod throughput;
