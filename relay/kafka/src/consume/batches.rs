//! The batches of an answer to Fetch.

use bytes::{Buf, Bytes};

use super::decompress::decompress;
use crate::{
    connect::error::KafkaError,
    record::batch::ProducerId,
    wire::codec::{Malformed, Reader},
};

/// Bytes of a batch before its length counts, and before its first record.
const LENGTH: usize = 12;
const HEAD: usize = 61;

/// Most bytes that a batch may take once it is read, since a small one can say that it has no end. A record that a
/// broker takes has at most 100 MiB.
const MOST: usize = 128 << 20;
/// Once what was read of an answer takes so many bytes, the rest of it is left for the next one.
const ENOUGH: usize = 32 << 20;

/// The records of an answer, and where the next one begins.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    pub(crate) records: Vec<Record>,
    /// `None`: the answer has no whole batch.
    pub(crate) next: Option<i64>,
    /// Producers whose transactions ended here.
    pub(crate) markers: Vec<ProducerId>,
    /// How many batches were left out, because they are no batches or too large.
    pub(crate) unreadable: u64,
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

/// How many bytes may still be taken.
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.0 = self.0.checked_sub(bytes).ok_or(Malformed)?;
        Ok(())
    }
}

/// Reads the whole batches of a partition's part of an answer; the last one may be cut off.
/// `taken`: how many bytes the records of the answer take so far.
pub(crate) fn read(mut bytes: Bytes, taken: &mut usize) -> Result<Batches, KafkaError> {
    let mut batches = Batches::default();
    while bytes.len() >= HEAD && *taken < ENOUGH {
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
        let records = bytes.split_to(length).slice(HEAD..);
        batches.next = Some(base.saturating_add(last.into()).saturating_add(1));
        let (compression, by_broker, is_control) = (attributes & 0x07, attributes & 0x08 != 0, attributes & 0x20 != 0);
        if is_control {
            batches.markers.push(producer);
            continue;
        }
        let mut room = Room(MOST);
        match read_batch(compression, records, base, first_ms, &mut room) {
            Ok(mut records) => {
                let latest = by_broker.then_some(latest_ms); // the time of writing
                records.iter_mut().for_each(|record| record.timestamp_ms = latest.unwrap_or(record.timestamp_ms));
                batches.records.append(&mut records);
            }
            Err(Malformed) => batches.unreadable += 1,
        }
        *taken += MOST - room.0;
    }
    Ok(batches)
}

fn read_batch(
    compression: i16,
    bytes: Bytes,
    base: i64,
    first_ms: i64,
    room: &mut Room,
) -> Result<Vec<Record>, Malformed> {
    let Some(bytes) = decompress(compression, bytes, room.0) else {
        room.0 = 0; // it was all for nothing, and took as long
        return Err(Malformed);
    };
    room.take(bytes.len())?;
    let (mut batch, mut records) = (Reader(bytes), Vec::new());
    while !batch.0.is_empty() {
        room.take(size_of::<Record>())?;
        records.push(record(&mut batch, base, first_ms, room)?);
    }
    Ok(records)
}

fn record(batch: &mut Reader, base: i64, first_ms: i64, room: &mut Room) -> Result<Record, Malformed> {
    let length = usize::try_from(batch.varint()?).map_err(|_| Malformed)?;
    let mut from = Reader(batch.take(length)?);
    from.i8()?; // attributes
    let timestamp_ms = first_ms.saturating_add(from.varint()?);
    let offset = base.saturating_add(from.varint()?);
    let (key, value) = (from.varint_bytes()?, from.varint_bytes()?);
    let mut headers = Vec::new();
    for _ in 0..from.varint()?.max(0) {
        let name = from.varint_bytes()?.ok_or(Malformed)?;
        room.take(size_of::<(String, Option<Bytes>)>())?;
        headers.push((String::from_utf8_lossy(&name).into_owned(), from.varint_bytes()?));
    }
    Ok(Record { offset, timestamp_ms, key, headers, value })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use bytes::{BufMut, BytesMut};
    use kafka_protocol::records::{
        Compression as Kind, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
    };

    use super::*;
    use crate::record::{batch::BatchWriter, compression::Compression, headers::Headers, message::Outgoing};

    struct Note(Option<&'static [u8]>, usize);

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
            Ok(b"value value value".get(..self.1))
        }

        fn put_headers(&self, headers: &mut Headers<'_>) -> Result<(), String> {
            headers.put("id", b"7");
            headers.put("id", b"8");
            Ok(())
        }
    }

    const PRODUCER: ProducerId = ProducerId { id: 1, epoch: 0 };
    const ALL: [Compression; 4] = [Compression::None, Compression::Gzip, Compression::Lz4, Compression::Zstd];

    fn batch(records: usize, compression: Compression) -> Bytes {
        let mut writer = BatchWriter::new(1_000);
        for number in 0..records {
            let key = (number % 2 == 0).then_some(&b"key"[..]);
            writer.push(&Note(key, number % 17), usize::MAX).unwrap();
        }
        writer.finish(PRODUCER, 0, compression)
    }

    /// A batch with these bytes as its compressed records.
    fn compressed(kind: i16, records: &[u8]) -> Bytes {
        let mut head = BytesMut::new();
        head.put_i64(40);
        head.put_i32(i32::try_from(HEAD - LENGTH + records.len()).unwrap());
        head.put_bytes(0, 9);
        head.put_i16(kind);
        head.put_i32(1);
        head.put_bytes(0, HEAD - LENGTH - 15);
        assert_eq!(head.len(), HEAD);
        head.put_slice(records);
        head.freeze()
    }

    fn read_one(bytes: Bytes) -> Batches {
        read(bytes, &mut 0).unwrap()
    }

    #[test]
    fn what_was_written_is_read_and_a_batch_that_is_cut_off_is_left_for_the_next_time() {
        for compression in ALL {
            let whole = batch(20, compression);
            let cut = [&whole[..], &whole[..whole.len() - 1]].concat();
            let batches = read_one(cut.into());
            assert_eq!((batches.records.len(), batches.next, batches.unreadable), (20, Some(20), 0), "{compression:?}");
            let record = &batches.records[0];
            assert_eq!(
                (record.key.as_deref(), record.timestamp_ms, record.headers.len()),
                (Some(&b"key"[..]), 1_000, 2)
            );
            assert_eq!((batches.records[19].key.as_deref(), batches.records[19].offset), (None, 19));
        }
    }

    #[test]
    fn kafkas_own_definitions_read_each_kind_and_a_batch_that_does_not_become_smaller_is_left_as_it_is() {
        let plain = RecordBatchDecoder::decode(&mut batch(200, Compression::None)).unwrap().records;
        for compression in ALL {
            let mut bytes = batch(200, compression);
            assert_eq!(bytes[22], u8::try_from(compression.number()).unwrap());
            let decoded = RecordBatchDecoder::decode(&mut bytes).unwrap();
            assert_eq!(decoded.records, plain, "{compression:?}");
            assert_eq!(batch(1, compression), batch(1, Compression::None), "{compression:?}");
        }
    }

    #[test]
    fn each_of_kafkas_kinds_is_read() {
        let written: Vec<_> = (0..3000)
            .map(|number| kafka_protocol::records::Record {
                transactional: false,
                control: false,
                delete_horizon: false,
                partition_leader_epoch: 0,
                producer_id: 1,
                producer_epoch: 0,
                timestamp_type: TimestampType::Creation,
                offset: number,
                sequence: i32::try_from(number).unwrap(),
                timestamp: 1_000,
                key: None,
                value: Some(format!("value {number}").into()),
                headers: kafka_protocol::indexmap::IndexMap::new(),
            })
            .collect();
        for compression in [Kind::None, Kind::Gzip, Kind::Snappy, Kind::Lz4, Kind::Zstd] {
            let mut bytes = BytesMut::new();
            let options = RecordEncodeOptions { version: 2, compression };
            RecordBatchEncoder::encode(&mut bytes, &written, &options).unwrap();
            let read = read_one(bytes.freeze());
            let values: Vec<_> = read.records.into_iter().map(|record| record.value).collect();
            let expected: Vec<_> = written.iter().map(|record| record.value.clone()).collect();
            assert!(values == expected && read.unreadable == 0, "{compression:?}: {}", values.len());
        }
        // Other clients than Java's write snappy as a lone block.
        let records = batch(20, Compression::None).slice(HEAD..);
        let block = snap::raw::Encoder::new().compress_vec(&records).unwrap();
        assert_eq!(read_one(compressed(2, &block)).records.len(), 20);
    }

    #[test]
    fn a_batch_without_end_is_left_out_and_the_next_one_is_read() {
        let zeros = vec![0; MOST + 1];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&zeros).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&zeros).unwrap();
        let block = snap::raw::Encoder::new().compress_vec(&zeros).unwrap();
        let javas =
            [b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01", &u32::try_from(block.len()).unwrap().to_be_bytes()[..], &block];
        let bombs = [
            (1, gzip.finish().unwrap()),
            (2, block.clone()),
            (2, javas.concat()),
            (2, vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
            (3, lz4.finish().unwrap()),
            (4, zstd::bulk::compress(&zeros, 1).unwrap()),
        ];
        for (kind, bomb) in bombs {
            let bomb = compressed(kind, &bomb);
            let mut taken = 0;
            let batches = read([&bomb[..], &batch(20, Compression::Gzip)].concat().into(), &mut taken).unwrap();
            // It has taken its time, so the rest is left for the next answer.
            assert_eq!((batches.records.len(), batches.next, batches.unreadable), (0, Some(42), 1), "{kind}");
            assert!((MOST..=MOST + 1).contains(&taken));
            assert_eq!(read(bomb, &mut taken).unwrap().next, None);
        }
    }

    /// An integer of variable length.
    fn varint(value: u32) -> Vec<u8> {
        let zigzag = u64::from(value) << 1;
        let byte = |place: u32| (zigzag >> (7 * place)) as u8 & 0x7f | if place < 4 { 0x80 } else { 0 };
        (0..5).map(byte).collect()
    }

    #[test]
    fn records_and_headers_that_are_next_to_nothing_do_not_fill_the_memory() {
        let record = [12, 0, 0, 0, 1, 1, 0];
        let with_headers = |count: u32| {
            let record =
                [&[0, 0, 0, 1, 1][..], &varint(count), &[0, 1].repeat(usize::try_from(count).unwrap())].concat();
            [varint(u32::try_from(record.len()).unwrap()), record].concat()
        };
        for (few, many) in [(record.repeat(1 << 10), record.repeat(2 << 20)), (with_headers(9), with_headers(4 << 20))]
        {
            let read = |records: &[u8]| read_one(compressed(4, &zstd::bulk::compress(records, 1).unwrap()));
            assert!(many.len() < ENOUGH && !read(&few).records.is_empty() && read(&few).unreadable == 0);
            assert_eq!((read(&many).records.len(), read(&many).unreadable), (0, 1));
        }
    }

    #[test]
    fn bytes_that_no_broker_sends_are_refused_and_cost_nothing() {
        for compression in ALL {
            let whole = batch(20, compression);
            for place in 0..whole.len() {
                for byte in [0, 0x7f, 0xff] {
                    let mut broken = whole.to_vec();
                    broken[place] = byte;
                    let _ = read(broken.into(), &mut 0);
                }
            }
        }
    }
}
