//! AMQP 0-9-1: its primitives, frames and methods, and the bytes on their way to the socket. No I/O.

pub(crate) mod frame;
pub(crate) mod method;
pub(crate) mod output;
pub(crate) mod wire;
