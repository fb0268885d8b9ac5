//! Requests with their answers.

mod identity;
mod metadata;
mod open;
mod produce;
mod read;

use bytes::BytesMut;

#[cfg(test)]
pub(crate) use self::metadata::PartitionAnswer;
pub(crate) use self::{
    identity::{AddPartitionsToTxn, EndTxn, FindCoordinator, InitProducerId},
    metadata::{Metadata, NO_RIGHTS_ASKED, TopicAnswer},
    open::{ApiVersions, SaslAuthenticate, SaslHandshake},
    produce::{BatchAnswer, Produce},
    read::{ByTopic, Fetch, ListOffsets},
};
use super::codec::{Malformed, Reader};

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
