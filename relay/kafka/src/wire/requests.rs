//! Requests with their answers.

use bytes::{BufMut, Bytes, BytesMut};

use super::codec::{Malformed, Reader, put_array, put_bytes, put_nullable_text, put_text};
use crate::record::batch::ProducerId;

/// A request with its answer.
pub(crate) trait Request {
    /// The answer.
    type Answer;
    /// The number of the request's kind, and the version in which it is sent.
    const KIND: (i16, i16);

    /// Writes the request behind its head.
    fn put(&self, out: &mut BytesMut);

    /// Reads the answer behind its head.
    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed>;
}

/// The kinds of requests that a broker speaks, each with its oldest and newest version.
pub(crate) struct ApiVersions;

impl Request for ApiVersions {
    type Answer = (i16, Vec<(i16, i16, i16)>);
    const KIND: (i16, i16) = (18, 0);

    fn put(&self, _out: &mut BytesMut) {}

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        Ok((from.i16()?, from.array(|from| Ok((from.i16()?, from.i16()?, from.i16()?)))?))
    }
}

/// The mechanism of a login.
pub(crate) struct SaslHandshake(pub(crate) &'static str);

impl Request for SaslHandshake {
    /// The code, and the mechanisms that the broker offers.
    type Answer = (i16, Vec<String>);
    const KIND: (i16, i16) = (17, 1);

    fn put(&self, out: &mut BytesMut) {
        put_text(out, self.0);
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        Ok((from.i16()?, from.array(Reader::text)?))
    }
}

/// A message of a login.
pub(crate) struct SaslAuthenticate(pub(crate) String);

impl Request for SaslAuthenticate {
    /// The code, the broker's words, and its message.
    type Answer = (i16, Option<String>, Bytes);
    const KIND: (i16, i16) = (36, 0);

    fn put(&self, out: &mut BytesMut) {
        put_bytes(out, self.0.as_bytes());
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        Ok((from.i16()?, from.nullable_text()?, from.bytes()?))
    }
}

/// Which brokers there are, and where these topics are; none is created.
pub(crate) struct Metadata<'a> {
    pub(crate) topics: &'a [String],
    /// Whether the answer says what the user may do with each topic.
    pub(crate) rights: bool,
}

/// What the cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetadataAnswer {
    /// Id, host and port of each broker.
    pub(crate) brokers: Vec<(i32, String, i32)>,
    pub(crate) topics: Vec<TopicAnswer>,
}

/// The answer about a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicAnswer {
    pub(crate) code: i16,
    pub(crate) name: String,
    pub(crate) partitions: Vec<PartitionAnswer>,
    /// A bit for each of Kafka's operations that the user may do, by its number; [`NO_RIGHTS_ASKED`]: not known.
    pub(crate) rights: i32,
}

/// The rights of a topic, if nobody has asked for them.
pub(crate) const NO_RIGHTS_ASKED: i32 = i32::MIN;

/// A partition of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionAnswer {
    pub(crate) number: i32,
    /// -1: it has no leader.
    pub(crate) leader: i32,
    pub(crate) replicas: usize,
}

impl Request for Metadata<'_> {
    type Answer = MetadataAnswer;
    const KIND: (i16, i16) = (3, 8);

    fn put(&self, out: &mut BytesMut) {
        put_array(out, self.topics, |out, topic| put_text(out, topic));
        out.put_u8(0); // no topic is created
        out.put_u8(0); // nothing about the rights on the cluster
        out.put_u8(u8::from(self.rights));
    }

    fn answer(from: &mut Reader) -> Result<Self::Answer, Malformed> {
        from.i32()?; // for how long the client is throttled
        let brokers = from.array(|from| {
            let broker = (from.i32()?, from.text()?, from.i32()?);
            from.nullable_text()?; // the rack
            Ok(broker)
        })?;
        from.nullable_text()?; // the cluster's id
        from.i32()?; // the controller
        let topics = from.array(|from| {
            let (code, name) = (from.i16()?, from.text()?);
            from.i8()?; // whether it is internal
            let partitions = from.array(|from| {
                from.i16()?; // why the leader may be missing
                let (number, leader) = (from.i32()?, from.i32()?);
                from.i32()?; // the leader's epoch
                let replicas = from.array(Reader::i32)?.len();
                from.array(Reader::i32)?; // those in sync
                from.array(Reader::i32)?; // those that are away
                Ok(PartitionAnswer { number, leader, replicas })
            })?;
            Ok(TopicAnswer { code, name, partitions, rights: from.i32()? })
        })?;
        from.i32()?; // the rights on the cluster
        Ok(MetadataAnswer { brokers, topics })
    }
}

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

/// The first offset of each of these partitions whose record has this time or a later one.
pub(crate) struct ListOffsets<'a>(pub(crate) &'a [(String, Vec<(i32, i64)>)]);

impl Request for ListOffsets<'_> {
    /// Topic, partition, code and offset; -1: there is no such record.
    type Answer = Vec<(String, i32, i16, i64)>;
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
        let topics = from.array(|from| {
            let topic = from.text()?;
            from.array(|from| {
                let (partition, code) = (from.i32()?, from.i16()?);
                from.i64()?; // the record's time
                Ok((topic.clone(), partition, code, from.i64()?))
            })
        })?;
        Ok(topics.into_iter().flatten().collect())
    }
}

/// Records of partitions from these offsets on. In earlier versions than this a broker keeps back what is compressed by
/// zstd.
pub(crate) struct Fetch {
    /// How long the broker waits for the first record.
    pub(crate) wait_ms: i32,
    /// Most bytes of the answer, and of each partition's part.
    pub(crate) most_bytes: i32,
    pub(crate) topics: Vec<(String, Vec<(i32, i64)>)>,
}

/// The records of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchAnswer {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) code: i16,
    /// The offset behind the last record that all in-sync replicas have.
    pub(crate) end: i64,
    pub(crate) records: Bytes,
}

impl Request for Fetch {
    /// The code, and the partitions.
    type Answer = (i16, Vec<FetchAnswer>);
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
                Ok(FetchAnswer { topic: String::new(), partition, code, end, records: from.bytes()? })
            })?;
            Ok(partitions.into_iter().map(move |part| FetchAnswer { topic: topic.clone(), ..part }))
        })?;
        Ok((code, topics.into_iter().flatten().collect()))
    }
}
