//! Requests that read records.

use bytes::{BufMut, Bytes, BytesMut};

use super::Request;
use crate::wire::codec::{Malformed, Reader, put_array, put_text};

/// Numbers of partitions by topic, each with a time or an offset.
pub(crate) type ByTopic = Vec<(String, Vec<(i32, i64)>)>;

/// The first offset of each of these partitions whose record has this time or a later one.
pub(crate) struct ListOffsets<'a>(pub(crate) &'a ByTopic);

impl Request for ListOffsets<'_> {
    /// Each topic with number, code and offset of its partitions; -1: there is no such record.
    type Answer = Vec<(String, Vec<(i32, i16, i64)>)>;
    const KIND: (i16, i16) = (2, 1);

    fn put(&self, out: &mut BytesMut) {
        out.put_i32(-1); // no replica asks
        put_array(out, self.0, |out, (topic, partitions)| {
            put_text(out, topic);
            put_array(out, partitions, |out, (partition, time_ms)| {
                out.put_i32(*partition);
                out.put_i64(*time_ms);
            });
        });
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        from.array(|from| {
            let topic = from.text()?;
            let partitions = from.array(|from| {
                let (partition, code) = (from.i32()?, from.i16()?);
                from.i64()?; // the record's time
                Ok((partition, code, from.i64()?))
            })?;
            Ok((topic, partitions))
        })
    }
}

/// Records of partitions from these offsets on. In earlier versions than this a broker keeps back what is compressed by
/// zstd.
pub(crate) struct Fetch {
    /// How long the broker waits for the first record.
    pub(crate) wait_ms: i32,
    /// Most bytes of the answer, and of each partition's part.
    pub(crate) most_bytes: i32,
    pub(crate) topics: ByTopic,
}

/// The records of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchAnswer {
    pub(crate) partition: i32,
    pub(crate) code: i16,
    /// The offset behind the last record that all in-sync replicas have.
    pub(crate) end: i64,
    pub(crate) records: Bytes,
}

impl Request for Fetch {
    /// The code, and each topic with its partitions.
    type Answer = (i16, Vec<(String, Vec<FetchAnswer>)>);
    const KIND: (i16, i16) = (1, 10);

    fn put(&self, out: &mut BytesMut) {
        out.put_i32(-1); // no replica asks
        out.put_i32(self.wait_ms);
        out.put_i32(1); // bytes to wait for
        out.put_i32(self.most_bytes);
        out.put_i8(0); // transactions that are not committed, too
        out.put_i32(0); // the session, of which there is none
        out.put_i32(-1);
        put_array(out, &self.topics, |out, (topic, partitions)| {
            put_text(out, topic);
            put_array(out, partitions, |out, (partition, offset)| {
                out.put_i32(*partition);
                out.put_i32(-1); // whichever epoch the leader has
                out.put_i64(*offset);
                out.put_i64(-1); // no replica asks
                out.put_i32(self.most_bytes);
            });
        });
        out.put_i32(0); // nothing leaves the session
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        from.i32()?; // for how long the client is throttled
        let code = from.i16()?;
        from.i32()?; // the session
        let topics = from.array(|from| {
            let topic = from.text()?;
            let partitions = from.array(|from| {
                let (partition, code, end) = (from.i32()?, from.i16()?, from.i64()?);
                from.i64()?; // up to where transactions are committed
                from.i64()?; // where the partition begins
                from.array(|from| Ok((from.i64()?, from.i64()?)))?; // transactions that were taken back
                Ok(FetchAnswer { partition, code, end, records: from.bytes()? })
            })?;
            Ok((topic, partitions))
        })?;
        Ok((code, topics))
    }
}
