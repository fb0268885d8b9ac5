//! Batches of records, and what the broker says of each.

use bytes::{BufMut, Bytes, BytesMut};

use super::Request;
use crate::wire::codec::{Malformed, Reader, put_array, put_bytes, put_nullable_text, put_text};

/// Batches by topic and partition, for all in-sync replicas.
pub(crate) struct Produce<'a> {
    /// How long the broker waits for the replicas.
    pub(crate) limit_ms: i32,
    pub(crate) topics: Vec<(&'a str, Vec<(i32, Bytes)>)>,
}

/// The answer about a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchAnswer {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) code: i16,
    pub(crate) text: Option<String>,
    /// The records to blame, by their place in the batch, with the broker's words.
    pub(crate) culprits: Vec<(i32, Option<String>)>,
}

impl Request for Produce<'_> {
    type Answer = Vec<BatchAnswer>;
    const KIND: (i16, i16) = (0, 8);

    fn put(&self, out: &mut BytesMut) {
        put_nullable_text(out, None); // no transaction
        out.put_i16(-1); // all in-sync replicas
        out.put_i32(self.limit_ms);
        put_array(out, &self.topics, |out, (topic, batches)| {
            put_text(out, topic);
            put_array(out, batches, |out, (partition, batch)| {
                out.put_i32(*partition);
                put_bytes(out, batch);
            });
        });
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        let topics = from.array(|from| {
            let topic = from.text()?;
            let batches = from.array(|from| {
                let (partition, code) = (from.i32()?, from.i16()?);
                from.i64()?; // the first offset
                from.i64()?; // the time of writing
                from.i64()?; // where the partition begins
                let culprits = from.array(|from| Ok((from.i32()?, from.nullable_text()?)))?;
                Ok(BatchAnswer { topic: String::new(), partition, code, text: from.nullable_text()?, culprits })
            })?;
            Ok(batches.into_iter().map(move |batch| BatchAnswer { topic: topic.clone(), ..batch }))
        })?;
        Ok(topics.into_iter().flatten().collect())
    }
}
