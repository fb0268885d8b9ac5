//! A record as a topic has it.

use bytes::Bytes;

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// The record's place in its partition.
    pub offset: i64,
    /// The record's time, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The headers in their order.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// The value.
    pub value: Option<Bytes>,
}
