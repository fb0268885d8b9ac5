//! Records as they lie in Kafka.

use bytes::{Buf, Bytes};
use kafka_protocol::records::RecordBatchDecoder;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaRecord {
    /// Its partition.
    pub partition: i32,
    /// Its place there.
    pub offset: i64,
    /// ms since 1970.
    pub timestamp: i64,
    /// `None`: it has no key.
    pub key: Option<Bytes>,
    /// In their order.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// `None`: a tombstone.
    pub value: Option<Bytes>,
    /// Who wrote it: id, epoch and number; the id is -1 where nobody says.
    pub producer: (i64, i16, i32),
}

impl KafkaRecord {
    /// The value of a header, if there is exactly one of this name.
    ///
    /// # Panics
    /// When the value is no UTF-8.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header == name);
        let (_, value) = values.next().filter(|_| values.next().is_none())?;
        Some(std::str::from_utf8(value.as_deref()?).expect("text"))
    }
}

/// What a fetch has brought from one partition: the records, and the offset after them. The last batch may be cut off.
pub(super) fn decode(partition: i32, mut bytes: Bytes, from: i64) -> (Vec<KafkaRecord>, i64) {
    let (mut records, mut next) = (Vec::new(), from);
    while let Some(header) = bytes.first_chunk::<27>() {
        let first = i64::from_be_bytes(header[..8].try_into().expect("eight bytes"));
        let number = |at: usize| i32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let length = 12 + usize::try_from(number(8)).expect("a length");
        if bytes.len() < length {
            break;
        }
        next = first + i64::from(number(23)) + 1; // compaction may have removed the last records
        let batch = RecordBatchDecoder::decode(&mut bytes.slice(..length)).expect("a batch of records");
        bytes.advance(length);
        let batch = batch.records.into_iter().filter(|record| !record.control && record.offset >= from);
        records.extend(batch.map(|record| KafkaRecord {
            partition,
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key,
            headers: record.headers.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            value: record.value,
            producer: (record.producer_id, record.producer_epoch, record.sequence),
        }));
    }
    (records, next)
}
