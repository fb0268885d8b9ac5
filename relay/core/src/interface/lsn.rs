//! A position in the write-ahead log.

use std::fmt;

/// Log sequence number: a byte offset in PostgreSQL's WAL, written `16/B374D848`
/// (<https://www.postgresql.org/docs/current/datatype-pg-lsn.html>).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

crate::marked!(Lsn { 0 as Lsn });

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}
