//! What is in a topic, as far as it is to be looked at.

pub(crate) mod batches;
mod decompress;
pub(crate) mod reader;
