//! Requests for a producer's id, and for the transaction that shuts its earlier epochs out.

use bytes::{BufMut, BytesMut};

use super::Request;
use crate::{
    record::batch::ProducerId,
    wire::codec::{Malformed, Reader, put_array, put_nullable_text, put_text},
};

/// The broker that keeps the producer's id of this name.
pub(crate) struct FindCoordinator<'a>(pub(crate) &'a str);

impl Request for FindCoordinator<'_> {
    /// The code, the broker's words, host and port.
    type Answer = (i16, Option<String>, String, i32);
    const KIND: (i16, i16) = (10, 1);

    fn put(&self, out: &mut BytesMut) {
        put_text(out, self.0);
        out.put_i8(1); // of a transactional id
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        from.i32()?; // for how long the client is throttled
        let (code, said) = (from.i16()?, from.nullable_text()?);
        from.i32()?; // the broker's id
        Ok((code, said, from.text()?, from.i32()?))
    }
}

/// The producer's id of this name; `None`: a new one.
pub(crate) struct InitProducerId<'a>(pub(crate) Option<&'a str>);

impl Request for InitProducerId<'_> {
    /// The code, the id and the epoch.
    type Answer = (i16, i64, i16);
    const KIND: (i16, i16) = (22, 1);

    fn put(&self, out: &mut BytesMut) {
        put_nullable_text(out, self.0);
        out.put_i32(60_000); // the time limit of transactions, which a fence alone needs
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        from.i32()?; // for how long the client is throttled
        Ok((from.i16()?, from.i64()?, from.i16()?))
    }
}

/// Adds partitions to the transaction of a producer, and begins it.
pub(crate) struct AddPartitionsToTxn<'a> {
    pub(crate) name: &'a str,
    pub(crate) producer: ProducerId,
    pub(crate) topics: &'a [(String, Vec<i32>)],
}

impl Request for AddPartitionsToTxn<'_> {
    /// Topic and code of each partition.
    type Answer = Vec<(String, i16)>;
    const KIND: (i16, i16) = (24, 0);

    fn put(&self, out: &mut BytesMut) {
        put_text(out, self.name);
        out.put_i64(self.producer.id);
        out.put_i16(self.producer.epoch);
        put_array(out, self.topics, |out, (topic, partitions)| {
            put_text(out, topic);
            put_array(out, partitions, |out, partition| out.put_i32(*partition));
        });
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        from.i32()?; // for how long the client is throttled
        let topics = from.array(|from| {
            let topic = from.text()?;
            let codes = from.array(|from| {
                from.i32()?; // the partition
                from.i16()
            })?;
            Ok(codes.into_iter().map(move |code| (topic.clone(), code)))
        })?;
        Ok(topics.into_iter().flatten().collect())
    }
}

/// Ends the transaction of a producer by taking it back.
pub(crate) struct EndTxn<'a> {
    pub(crate) name: &'a str,
    pub(crate) producer: ProducerId,
}

impl Request for EndTxn<'_> {
    /// The code.
    type Answer = i16;
    const KIND: (i16, i16) = (26, 0);

    fn put(&self, out: &mut BytesMut) {
        put_text(out, self.name);
        out.put_i64(self.producer.id);
        out.put_i16(self.producer.epoch);
        out.put_u8(0); // not committed
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        from.i32()?; // for how long the client is throttled
        from.i16()
    }
}
