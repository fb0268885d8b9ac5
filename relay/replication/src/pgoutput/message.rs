//! The messages of a stream, and the tables that they concern.

use std::{fmt, sync::Arc};

use bytes::{Buf, Bytes};

use super::{Problem, Tuple, text, utf8};
use crate::lsn::Lsn;

/// One decoded message. Transactions come whole and in commit order: `Begin`, their changes, `Commit`.
#[derive(Clone)]
pub enum Message {
    /// A transaction begins.
    Begin {
        /// LSN of the transaction's commit record, which the `Commit` repeats.
        final_lsn: Lsn,
        /// Time of the commit, in microseconds since the Unix epoch.
        commit_time_us: i64,
        /// The transaction's id.
        xid: u32,
    },
    /// The transaction ends.
    Commit {
        /// LSN of the commit record.
        commit_lsn: Lsn,
        /// LSN behind the commit record, which may be acknowledged once the transaction is dealt with.
        end_lsn: Lsn,
    },
    /// The description of a table, sent before its first row and after every change of its columns.
    Relation(Arc<Relation>),
    /// A new row.
    Insert {
        /// The row's table.
        relation: Arc<Relation>,
        /// The row's values, one for each of the table's columns.
        tuple: Tuple,
    },
    /// A message of `pg_logical_emit_message`. Anyone in the database may write one: look at the prefix.
    Message {
        /// Whether the message belongs to the transaction around it. Otherwise it can also come between transactions.
        transactional: bool,
        /// The message's position in the WAL.
        lsn: Lsn,
        /// The name of the recipients.
        prefix: Bytes,
        /// The message's bytes.
        content: Bytes,
    },
    /// The first byte of any other message: origins, types, truncates, updates, deletes, and additions of later
    /// versions.
    Other(u8),
}

/// Shows the shape and never a row's values or a message's content, which are not for logs.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin { final_lsn, commit_time_us, xid } => f
                .debug_struct("Begin")
                .field("final_lsn", final_lsn)
                .field("commit_time_us", commit_time_us)
                .field("xid", xid)
                .finish(),
            Self::Commit { commit_lsn, end_lsn } => {
                f.debug_struct("Commit").field("commit_lsn", commit_lsn).field("end_lsn", end_lsn).finish()
            }
            Self::Relation(relation) => f.debug_tuple("Relation").field(relation).finish(),
            Self::Insert { relation, tuple } => {
                f.debug_struct("Insert").field("relation", &relation.name).field("tuple", tuple).finish()
            }
            Self::Message { transactional, lsn, prefix, content } => f
                .debug_struct("Message")
                .field("transactional", transactional)
                .field("lsn", lsn)
                .field("prefix", prefix)
                .field("content_bytes", &content.len())
                .finish(),
            Self::Other(tag) => f.debug_tuple("Other").field(&char::from(*tag)).finish(),
        }
    }
}

/// A table as the stream describes it. It owns its names, because it outlives the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// The table's oid, to which its rows refer.
    pub oid: u32,
    /// The table's schema; empty for `pg_catalog`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The published columns, in the order of a row's values.
    pub columns: Vec<RelationColumn>,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationColumn {
    /// Its name.
    pub name: String,
    /// Oid of the data type. A type that is not built in has a different oid in every database.
    pub type_oid: u32,
}

impl Relation {
    pub(super) fn decode(data: &mut Bytes) -> Result<Self, Problem> {
        let oid = data.try_get_u32()?;
        let namespace = utf8(&text(data)?)?;
        let name = utf8(&text(data)?)?;
        let _replica_identity = data.try_get_u8()?; // matters to updates and deletes
        let count = data.try_get_u16()?;
        // Collecting through `Result` reserves no capacity: the sender's `count` must not allocate.
        let columns = (0..count).map(|_| RelationColumn::decode(data)).collect::<Result<_, _>>()?;
        Ok(Self { oid, namespace, name, columns })
    }
}

impl RelationColumn {
    fn decode(data: &mut Bytes) -> Result<Self, Problem> {
        let _flags = data.try_get_u8()?; // part of the key, or not
        let name = utf8(&text(data)?)?;
        let type_oid = data.try_get_u32()?;
        let _type_modifier = data.try_get_u32()?;
        Ok(Self { name, type_oid })
    }
}
