//! Records as Kafka stores them: batches, keys and their partitions.

pub(crate) mod batch;
pub(crate) mod compression;
pub(crate) mod fetched;
pub(crate) mod headers;
pub(crate) mod message;
pub(crate) mod murmur2;
mod varint;
