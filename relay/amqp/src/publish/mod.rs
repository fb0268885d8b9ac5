//! The publisher: messages in, a certain confirm for each out.

mod beside;
pub(crate) mod channel;
pub(crate) mod config;
pub(crate) mod confirm;
mod connection;
mod deliveries;
pub(crate) mod encoder;
pub(crate) mod headers;
pub(crate) mod message;
pub(crate) mod opening;
mod pressure;
pub(crate) mod publisher;
mod window;
