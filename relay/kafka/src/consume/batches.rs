//! The batches of an answer to Fetch.

use bytes::{Buf, Bytes};
use kafka_protocol::records::{Record, RecordBatchDecoder};

use crate::connect::{channel::protocol, error::KafkaError};

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

/// Bytes of a batch up to its last offset.
const HEAD: usize = 27;
const LENGTH: usize = 12;

/// The records of an answer, and where the next one begins.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    pub(crate) records: Vec<Record>,
    /// `None`: the answer has no whole batch.
    pub(crate) next: Option<i64>,
    /// How many batches are compressed, which this client does not read.
    pub(crate) compressed: u64,
}

/// Reads the whole batches of an answer; the last one may be cut off. Control batches are left out.
pub(crate) fn read(mut bytes: Bytes) -> Result<Batches, KafkaError> {
    let mut batches = Batches::default();
    while bytes.len() >= HEAD {
        let mut head = bytes.slice(..HEAD);
        let (base, length) = (head.get_i64(), head.get_i32());
        let length = usize::try_from(length).ok().filter(|length| *length >= HEAD - LENGTH);
        let length = LENGTH + length.ok_or_else(|| protocol("a batch of an impossible length"))?;
        if bytes.len() < length {
            break;
        }
        head.advance(4 + 1 + 4); // the leader's epoch, the format, the checksum
        let (attributes, last) = (head.get_i16(), head.get_i32());
        let mut batch = bytes.split_to(length);
        batches.next = Some(base + i64::from(last) + 1);
        let (is_compressed, is_control) = (attributes & 0x07 != 0, attributes & 0x20 != 0);
        if is_control {
            continue;
        }
        if is_compressed {
            batches.compressed += 1;
            continue;
        }
        batches.records.extend(RecordBatchDecoder::decode(&mut batch).map_err(protocol)?.records);
    }
    Ok(batches)
}
