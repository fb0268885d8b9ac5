//! The batches of an answer to Fetch.

use bytes::{Buf, Bytes};

use crate::{
    connect::error::KafkaError,
    record::batch::ProducerId,
    wire::codec::{Malformed, Reader},
};

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

/// Bytes of a batch before its length counts, and before its first record.
const LENGTH: usize = 12;
const HEAD: usize = 61;

/// The records of an answer, and where the next one begins.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    pub(crate) records: Vec<Record>,
    /// `None`: the answer has no whole batch.
    pub(crate) next: Option<i64>,
    /// How many batches are compressed, which this client does not read.
    pub(crate) compressed: u64,
    /// Producers whose transactions ended here.
    pub(crate) markers: Vec<ProducerId>,
}

/// A record, without its topic and partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: i64,
    pub(crate) key: Option<Bytes>,
    pub(crate) headers: Vec<(String, Option<Bytes>)>,
    pub(crate) value: Option<Bytes>,
}

/// Reads the whole batches of an answer; the last one may be cut off.
pub(crate) fn read(mut bytes: Bytes) -> Result<Batches, KafkaError> {
    let mut batches = Batches::default();
    while bytes.len() >= HEAD {
        let mut head = bytes.slice(..HEAD);
        let (base, length) = (head.get_i64(), head.get_i32());
        let length = usize::try_from(length).ok().filter(|length| *length >= HEAD - LENGTH).ok_or(Malformed)? + LENGTH;
        if bytes.len() < length {
            break;
        }
        head.advance(4 + 1 + 4); // the leader's epoch, the format, the checksum
        let (attributes, last) = (head.get_i16(), head.get_i32());
        let (first_ms, latest_ms) = (head.get_i64(), head.get_i64());
        let producer = ProducerId { id: head.get_i64(), epoch: head.get_i16() };
        let mut batch = Reader(bytes.split_to(length).slice(HEAD..));
        batches.next = Some(base.saturating_add(last.into()).saturating_add(1));
        let (is_compressed, by_broker, is_control) =
            (attributes & 0x07 != 0, attributes & 0x08 != 0, attributes & 0x20 != 0);
        if is_control {
            batches.markers.push(producer);
            continue;
        }
        if is_compressed {
            batches.compressed += 1;
            continue;
        }
        while !batch.0.is_empty() {
            let mut record = record(&mut batch, base, first_ms)?;
            if by_broker {
                record.timestamp_ms = latest_ms; // the time of writing
            }
            batches.records.push(record);
        }
    }
    Ok(batches)
}

fn record(batch: &mut Reader, base: i64, first_ms: i64) -> Result<Record, Malformed> {
    let length = usize::try_from(batch.varint()?).map_err(|_| Malformed)?;
    let mut from = Reader(batch.take(length)?);
    from.i8()?; // attributes
    let timestamp_ms = first_ms.saturating_add(from.varint()?);
    let offset = base.saturating_add(from.varint()?);
    let (key, value) = (from.varint_bytes()?, from.varint_bytes()?);
    let mut headers = Vec::new();
    for _ in 0..from.varint()?.max(0) {
        let name = from.varint_bytes()?.ok_or(Malformed)?;
        headers.push((String::from_utf8_lossy(&name).into_owned(), from.varint_bytes()?));
    }
    Ok(Record { offset, timestamp_ms, key, headers, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{batch::BatchWriter, headers::Headers, message::Outgoing};

    struct Note(Option<&'static [u8]>);

    impl Outgoing for Note {
        type Mark = ();

        fn id(&self) -> uuid::Uuid {
            uuid::Uuid::nil()
        }

        fn topic(&self) -> &'static str {
            "t"
        }

        fn key(&self) -> Option<&[u8]> {
            self.0
        }

        fn value(&self) -> Result<Option<&[u8]>, &str> {
            Ok(Some(b"value"))
        }

        fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), String> {
            headers.put("id", b"7");
            headers.put("id", b"8");
            Ok(())
        }
    }

    fn batch() -> Bytes {
        let mut writer = BatchWriter::new(1_000);
        for key in [Some(&b"key"[..]), None] {
            writer.push(&Note(key), 10_000).unwrap();
        }
        writer.finish(ProducerId { id: 1, epoch: 0 }, 0)
    }

    #[test]
    fn what_was_written_is_read_and_a_batch_that_is_cut_off_is_left_for_the_next_time() {
        let whole = batch();
        let cut = [&whole[..], &whole[..whole.len() - 1]].concat();
        let batches = read(cut.into()).unwrap();
        assert_eq!((batches.records.len(), batches.next), (2, Some(2)));
        let record = &batches.records[0];
        assert_eq!((record.key.as_deref(), record.timestamp_ms, record.headers.len()), (Some(&b"key"[..]), 1_000, 2));
        assert_eq!(batches.records[1].key, None);
    }

    #[test]
    fn bytes_that_no_broker_sends_are_refused_and_cost_nothing() {
        let whole = batch();
        for place in 0..whole.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut broken = whole.to_vec();
                broken[place] = byte;
                let _ = read(broken.into());
            }
        }
    }
}
