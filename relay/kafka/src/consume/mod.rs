//! What is in a topic, as far as it is to be looked at.

pub(crate) mod batches;
mod decompress;
mod fence;
pub(crate) mod read_back;
pub(crate) mod reader;
