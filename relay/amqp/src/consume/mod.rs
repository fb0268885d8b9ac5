//! A consumer of messages as they pass an exchange, over the same connections as the publisher's.

pub(crate) mod config;
pub(crate) mod consumer;
pub(crate) mod delivery;
pub(crate) mod inbox;
mod opening;
mod table;
