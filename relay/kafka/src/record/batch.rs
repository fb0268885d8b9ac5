//! A batch of records in the form of message format 2 (<https://kafka.apache.org/documentation/#recordbatch>), written
//! straight into the bytes that leave.

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    compression::Compression,
    headers::Headers,
    message::Outgoing,
    varint::{put_varint, varint_len},
};

/// Bytes of a batch before its first record.
const HEAD: usize = 61;
/// Place of the checksum, which covers everything behind it.
const CRC: usize = 17;
/// Bytes before the part that the batch's length counts.
const LENGTH_COUNTS_FROM: usize = 12;
const MAGIC: i8 = 2;

/// Who writes a batch, as the broker knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerId {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// A batch that is being written.
pub(crate) struct BatchWriter {
    bytes: BytesMut,
    /// A record, whose length is written before it.
    record: Vec<u8>,
    records: i32,
    timestamp_ms: i64,
}

/// Why a record cannot be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unwritable {
    /// The batch would become larger than allowed; it has other records.
    Full,
    /// The record itself, for this reason.
    Record(String),
}

impl BatchWriter {
    /// An empty batch, whose records all have the same time (milliseconds since 1970).
    pub(crate) fn new(timestamp_ms: i64) -> Self {
        let mut bytes = BytesMut::with_capacity(4096);
        bytes.put_bytes(0, HEAD);
        Self { bytes, record: Vec::new(), records: 0, timestamp_ms }
    }

    /// Adds a record. The first one is taken whatever its size; the others as long as the batch has at most so many
    /// bytes before it is compressed.
    pub(crate) fn push<M: Outgoing>(&mut self, message: &M, at_most: usize) -> Result<(), Unwritable> {
        self.record.clear();
        self.record.push(0); // attributes
        self.record.push(0); // the time, relative to the batch's
        put_varint(&mut self.record, self.records.into());
        put_bytes(&mut self.record, message.key());
        put_bytes(&mut self.record, message.value().map_err(|why| Unwritable::Record(why.to_owned()))?);
        Headers::write(&mut self.record, |headers| message.put_headers(headers)).map_err(Unwritable::Record)?;
        let length = i64::try_from(self.record.len()).unwrap_or(i64::MAX);
        let size = self.bytes.len() + varint_len(length) + self.record.len();
        if self.records > 0 && size > at_most {
            return Err(Unwritable::Full);
        }
        if i32::try_from(size).is_err() {
            return Err(Unwritable::Record("a record has at most 2 GiB".to_owned()));
        }
        put_varint(&mut self.bytes, length);
        self.bytes.extend_from_slice(&self.record);
        self.records += 1;
        Ok(())
    }

    /// Bytes of the batch as it is now, before it is compressed.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Ends the batch, which is the producer's with this number of its first record in the partition.
    pub(crate) fn finish(mut self, producer: ProducerId, base_sequence: i32, compression: Compression) -> Bytes {
        let mut attributes = 0; // no compression, the producer's time, no transaction
        if let Some(compressed) = self.bytes.get(HEAD..).and_then(|records| compression.compress(records)) {
            attributes = compression.number();
            self.bytes = BytesMut::with_capacity(HEAD + compressed.len());
            self.bytes.put_bytes(0, HEAD);
            self.bytes.put_slice(&compressed);
        }
        let length = i32::try_from(self.bytes.len() - LENGTH_COUNTS_FROM).unwrap_or(i32::MAX);
        let (mut head, records) = self.bytes.split_at_mut(HEAD);
        let mut covered = Vec::with_capacity(HEAD - CRC - 4);
        covered.put_i16(attributes);
        covered.put_i32(self.records - 1);
        covered.put_i64(self.timestamp_ms);
        covered.put_i64(self.timestamp_ms);
        covered.put_i64(producer.id);
        covered.put_i16(producer.epoch);
        covered.put_i32(base_sequence);
        covered.put_i32(self.records);
        head.put_i64(0); // the base offset, which the broker sets
        head.put_i32(length);
        head.put_i32(-1); // the leader's epoch, which the broker sets
        head.put_i8(MAGIC);
        head.put_u32(crc32c::crc32c_append(crc32c::crc32c(&covered), records));
        head.put_slice(&covered);
        self.bytes.freeze()
    }
}

/// Writes bytes with their length; `None` as Kafka's null.
fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_varint(out, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
            out.extend_from_slice(bytes);
        }
        None => put_varint(out, -1),
    }
}
