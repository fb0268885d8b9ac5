//! Records as they lie in Kafka.

use bytes::{Buf, Bytes};
use kafka_protocol::compression::{Decompressor, Gzip, Lz4, Zstd};

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
    while let Some(length) = bytes.get(8..12) {
        let length = 12 + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if bytes.len() < length {
            break;
        }
        let (batch, after) = decode_batch(partition, bytes.split_to(length));
        records.extend(batch.into_iter().filter(|record| record.offset >= from));
        next = after; // the last records may have been removed by compaction
    }
    (records, next)
}

/// Version 2 of the format. The library's own decoder keeps one header of each name, and not the time at which the
/// broker has written the batch.
fn decode_batch(partition: i32, mut bytes: Bytes) -> (Vec<KafkaRecord>, i64) {
    let first = bytes.get_i64();
    bytes.advance(4 + 4); // length, epoch of the leader
    assert_eq!(bytes.get_i8(), 2, "the batch's version");
    bytes.advance(4); // checksum
    let attributes = bytes.get_i16();
    let next = first + i64::from(bytes.get_i32()) + 1;
    let [first_time, last_time] = [bytes.get_i64(), bytes.get_i64()];
    let (producer, epoch, number, count) = (bytes.get_i64(), bytes.get_i16(), bytes.get_i32(), bytes.get_i32());
    let is_control = attributes & 0x20 != 0; // the end of a transaction
    let mut bytes = decompress(attributes & 0x7, bytes);
    let records = (0..if is_control { 0 } else { count }).map(|_| {
        let length = variable(&mut bytes);
        let mut bytes = bytes.split_to(usize::try_from(length).expect("a length"));
        bytes.advance(1); // attributes
        let [time, place] = [variable(&mut bytes), variable(&mut bytes)];
        let [key, value] = [field(&mut bytes), field(&mut bytes)];
        let headers = (0..variable(&mut bytes)).map(|_| {
            let name = field(&mut bytes).expect("a header has a name");
            (String::from_utf8(name.to_vec()).expect("a header's name is UTF-8"), field(&mut bytes))
        });
        KafkaRecord {
            partition,
            offset: first + place,
            timestamp: if attributes & 0x8 == 0 { first_time + time } else { last_time },
            key,
            headers: headers.collect(),
            value,
            producer: (producer, epoch, number.wrapping_add(i32::try_from(place).expect("32 bits"))),
        }
    });
    (records.collect(), next)
}

fn decompress(by: i16, mut bytes: Bytes) -> Bytes {
    let all = match by {
        0 => return bytes,
        1 => Gzip::decompress(&mut bytes, |bytes| Ok(bytes.copy_to_bytes(bytes.remaining()))),
        3 => Lz4::decompress(&mut bytes, |bytes| Ok(bytes.copy_to_bytes(bytes.remaining()))),
        4 => Zstd::decompress(&mut bytes, |bytes| Ok(bytes.copy_to_bytes(bytes.remaining()))),
        _ => panic!("a batch that nobody here can decompress: {by}"),
    };
    all.expect("a batch that can be decompressed")
}

/// A length and as many bytes; `None` for the length -1.
fn field(bytes: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(variable(bytes)).ok()?;
    Some(bytes.split_to(length))
}

/// A number in seven bits a byte, the lowest first, its sign in the lowest bit.
fn variable(bytes: &mut Bytes) -> i64 {
    let mut zigzag = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = bytes.get_u8();
        zigzag |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_sign() {
        for (bytes, number) in [
            (&[0][..], 0),
            (&[1], -1),
            (&[2], 1),
            (&[0x80, 0x01], 64),
            (&[0xff, 0x7f], -8_192),
            (&[0x80, 0x80, 0x01], 8_192),
        ] {
            assert_eq!(variable(&mut Bytes::from_static(bytes)), number, "{bytes:x?}");
        }
    }
}
