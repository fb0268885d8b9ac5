//! Where topics and brokers are.

use bytes::{BufMut, BytesMut};

use super::Request;
use crate::wire::codec::{Malformed, Reader, put_array, put_text};

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
