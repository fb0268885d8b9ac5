//! How the records of a batch are compressed.

use std::io::{self, Write};

/// The level of gzip and of zstd. A higher one makes batches some tenths smaller, and costs up to six times the time.
const LEVEL: u8 = 1;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// By gzip.
    Gzip,
    /// By lz4, in frames.
    Lz4,
    /// By zstd, which brokers know since 2.1.
    Zstd,
}

impl Compression {
    /// Kafka's number, which stands in the attributes of a batch.
    pub(crate) fn number(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Compresses records. `None`: they would not become smaller.
    pub(crate) fn compress(self, records: &[u8]) -> Option<Vec<u8>> {
        let compressed = match self {
            Self::None => return None,
            Self::Gzip => gzip(records),
            Self::Lz4 => lz4(records),
            Self::Zstd => zstd::bulk::compress(records, LEVEL.into()),
        };
        // Nothing can fail but an allocation, and the records can leave as they are.
        compressed.ok().filter(|compressed| compressed.len() < records.len())
    }
}

fn gzip(records: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(LEVEL.into()));
    encoder.write_all(records)?;
    encoder.finish()
}

fn lz4(records: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(records)?;
    Ok(encoder.finish()?)
}
