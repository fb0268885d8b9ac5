//! Why a message cannot be decoded.

use bytes::TryGetError;

/// A message that breaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad pgoutput message {:?}: {problem}", char::from(*tag))]
pub struct DecodeError {
    /// The message's first byte, which names its kind; 0 if there is none.
    pub tag: u8,
    /// What is wrong with the message.
    pub problem: Problem,
}

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A field lies beyond the end.
    #[error("it ends too early")]
    Truncated,
    /// The message goes on after its last field.
    #[error("{0} bytes follow its last field")]
    TrailingBytes(usize),
    /// A name is not UTF-8, although the session asked for UTF-8.
    #[error("a name is not UTF-8")]
    NotUtf8,
    /// The row's table was not described before.
    #[error("the table with oid {0} was not described before")]
    UnknownRelation(u32),
    /// The insert carries something other than a new row.
    #[error("a row of the unknown kind {:?}", char::from(*.0))]
    UnknownTuple(u8),
    /// A column's value is of no known kind.
    #[error("a column of the unknown kind {:?}", char::from(*.0))]
    UnknownColumn(u8),
    /// The row does not fit its table's description.
    #[error("the row has {found} columns, its table {expected}")]
    ColumnCount {
        /// Columns in the description.
        expected: usize,
        /// Columns in the row.
        found: usize,
    },
}

impl From<TryGetError> for Problem {
    fn from(_: TryGetError) -> Self {
        Self::Truncated
    }
}
