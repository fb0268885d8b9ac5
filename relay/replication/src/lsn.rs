//! A position in the write-ahead log.

use std::{fmt, str::FromStr};

/// Log sequence number: a byte offset in PostgreSQL's WAL, written `16/B374D848`
/// (<https://www.postgresql.org/docs/current/datatype-pg-lsn.html>).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// The text is not of the form `16/B374D848`.
#[derive(Debug, thiserror::Error)]
#[error("not an LSN: {0:?}")]
pub struct InvalidLsn(String);

impl FromStr for Lsn {
    type Err = InvalidLsn;

    fn from_str(text: &str) -> Result<Self, InvalidLsn> {
        let half = |part: &str| u32::from_str_radix(part, 16).ok();
        text.split_once('/')
            .and_then(|(high, low)| Some(Self(u64::from(half(high)?) << 32 | u64::from(half(low)?))))
            .ok_or_else(|| InvalidLsn(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_lsn_reads_back_as_it_was_written() {
        for value in [0, 1, 0x16_B374_D848, u64::MAX] {
            assert_eq!(Lsn(value).to_string().parse::<Lsn>().unwrap(), Lsn(value));
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "16", "16/", "/1", "g/1", "1/100000000"] {
            assert!(text.parse::<Lsn>().is_err(), "{text}");
        }
    }
}
