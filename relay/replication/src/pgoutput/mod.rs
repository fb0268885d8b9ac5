//! Decoder of `pgoutput`, version 1 of the logical replication protocol. Pure: bytes in, messages out.
//!
//! Values are slices of their message and a tuple is walked lazily, so an insert allocates nothing. No input makes the
//! decoder panic. Message layouts:
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>.

mod error;
mod message;
#[cfg(test)]
mod tests;
mod tuple;

use std::{collections::HashMap, sync::Arc};

use bytes::{Buf, Bytes};

pub use self::{
    error::{DecodeError, Problem},
    message::{Message, Relation, RelationColumn},
    tuple::{Column, Columns, Tuple},
};
use crate::lsn::Lsn;

/// Microseconds from the Unix epoch to 2000-01-01, where the protocol's clock begins.
pub const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// Decodes the messages of one stream.
///
/// The server describes a table once, before its first row, so a decoder belongs to one stream from its start.
#[derive(Debug, Default)]
pub struct Decoder {
    relations: HashMap<u32, Arc<Relation>>,
}

impl Decoder {
    /// A decoder for the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one message: the data of one [`Frame::XLogData`](crate::Frame::XLogData).
    ///
    /// Messages that an insert-only publication does not need become [`Message::Other`].
    ///
    /// # Errors
    ///
    /// The bytes break the protocol. The stream cannot be trusted any more: start a new one.
    pub fn decode(&mut self, mut data: Bytes) -> Result<Message, DecodeError> {
        let tag = data.try_get_u8().map_err(|_| DecodeError { tag: 0, problem: Problem::Truncated })?;
        self.body(tag, data).map_err(|problem| DecodeError { tag, problem })
    }

    /// The table of an insert, from its beginning alone, as in [`Frame::Oversized`](crate::Frame::Oversized). `None`:
    /// the message is no insert, or the table was not described.
    pub fn table_of_insert(&self, head: &[u8]) -> Option<&Relation> {
        let (tag, rest) = head.split_first()?;
        let oid = rest.first_chunk().copied().map(u32::from_be_bytes)?;
        self.relations.get(&oid).filter(|_| *tag == b'I').map(Arc::as_ref)
    }

    fn body(&mut self, tag: u8, mut data: Bytes) -> Result<Message, Problem> {
        let data = &mut data;
        let message = match tag {
            b'I' => return self.insert(data),
            b'B' => Message::Begin {
                final_lsn: Lsn(data.try_get_u64()?),
                commit_time_us: data.try_get_i64()?.saturating_add(POSTGRES_EPOCH_US),
                xid: data.try_get_u32()?,
            },
            b'C' => {
                let _flags = data.try_get_u8()?; // "currently unused"
                let (commit_lsn, end_lsn) = (Lsn(data.try_get_u64()?), Lsn(data.try_get_u64()?));
                let _commit_time = data.try_get_i64()?; // as in Begin
                Message::Commit { commit_lsn, end_lsn }
            }
            b'R' => {
                let relation = Arc::new(Relation::decode(data)?);
                self.relations.insert(relation.oid, Arc::clone(&relation));
                Message::Relation(relation)
            }
            b'M' => {
                let transactional = data.try_get_u8()? & 1 != 0;
                let lsn = Lsn(data.try_get_u64()?);
                let prefix = text(data)?;
                let length = data.try_get_u32()?;
                Message::Message { transactional, lsn, prefix, content: split(data, length)? }
            }
            other => return Ok(Message::Other(other)),
        };
        finish(data)?;
        Ok(message)
    }

    fn insert(&self, data: &mut Bytes) -> Result<Message, Problem> {
        let oid = data.try_get_u32()?;
        let relation = self.relations.get(&oid).ok_or(Problem::UnknownRelation(oid))?;
        match data.try_get_u8()? {
            b'N' => {}
            other => return Err(Problem::UnknownTuple(other)),
        }
        let tuple = Tuple::decode(std::mem::take(data))?;
        if tuple.len() != relation.columns.len() {
            return Err(Problem::ColumnCount { expected: relation.columns.len(), found: tuple.len() });
        }
        Ok(Message::Insert { relation: Arc::clone(relation), tuple })
    }
}

/// Takes `length` bytes off the front.
fn split(data: &mut Bytes, length: u32) -> Result<Bytes, Problem> {
    match usize::try_from(length) {
        Ok(length) if length <= data.len() => Ok(data.split_to(length)),
        _ => Err(Problem::Truncated),
    }
}

/// Takes a null-terminated string off the front.
fn text(data: &mut Bytes) -> Result<Bytes, Problem> {
    let length = data.iter().position(|&byte| byte == 0).ok_or(Problem::Truncated)?;
    let text = data.split_to(length);
    data.advance(1);
    Ok(text)
}

/// Copies a string out of its buffer.
fn utf8(text: &[u8]) -> Result<String, Problem> {
    std::str::from_utf8(text).map(str::to_owned).map_err(|_| Problem::NotUtf8)
}

/// Checks that nothing follows the last field.
fn finish(data: &Bytes) -> Result<(), Problem> {
    if data.is_empty() { Ok(()) } else { Err(Problem::TrailingBytes(data.len())) }
}
