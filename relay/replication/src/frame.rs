//! The messages inside `CopyData` once a stream runs: WAL and keepalives from the server, statuses from the client
//! (<https://www.postgresql.org/docs/current/protocol-replication.html>). This hot path is read by hand, because a
//! generic parser would look at every byte count twice.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};

use crate::{lsn::Lsn, server_error::ServerError};

/// Seconds from the Unix epoch to 2000-01-01, where the protocol's clock begins.
const POSTGRES_EPOCH_S: u64 = 946_684_800;

/// How many bytes of an insert that is passed over are handed out.
const HEAD: usize = 512;

/// One message of a running stream.
#[derive(Clone, PartialEq, Eq)]
pub enum Frame {
    /// A piece of the WAL: one message of the output plugin.
    XLogData {
        /// The message's position in the WAL; zero for a message that only describes.
        start: Lsn,
        /// The same as `start` in a logical stream. Never acknowledge it: acknowledge ends of commits.
        wal_end: Lsn,
        /// The plugin's message, a slice of the receive buffer: copy what should outlive the next read.
        data: Bytes,
    },
    /// The server is alive.
    Keepalive {
        /// The position up to which the server has sent. It may be acknowledged once nothing before it is unsettled.
        wal_end: Lsn,
        /// Whether the server wants a status at once, without which it ends the stream at `wal_sender_timeout`. A
        /// server that shuts down asks too, and waits until everything it sent is acknowledged.
        reply_requested: bool,
    },
    /// An insert beyond the caller's limit ([`limit_inserts`](crate::ReplicationStream::limit_inserts)). It was passed
    /// over.
    Oversized {
        /// Length of the plugin's message, in bytes.
        bytes: usize,
        /// The first 512 bytes of the plugin's message: its table and its first columns, cut anywhere.
        head: Bytes,
    },
    /// A warning from the server. PostgreSQL 18 and newer warn of a missing publication, whose changes are then not in
    /// the stream.
    Warning(Box<ServerError>),
}

/// Shows the length of the data, not the data.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::XLogData { start, wal_end, data } => f
                .debug_struct("XLogData")
                .field("start", start)
                .field("wal_end", wal_end)
                .field("data_bytes", &data.len())
                .finish(),
            Self::Keepalive { wal_end, reply_requested } => {
                f.debug_struct("Keepalive").field("wal_end", wal_end).field("reply_requested", reply_requested).finish()
            }
            Self::Oversized { bytes, .. } => f.debug_struct("Oversized").field("bytes", bytes).finish_non_exhaustive(),
            Self::Warning(warning) => f.debug_tuple("Warning").field(warning).finish(),
        }
    }
}

impl Frame {
    /// Reads the content of a `CopyData`; `None` if its kind is unknown.
    pub(crate) fn parse(mut body: Bytes) -> Result<Option<Self>, TryGetError> {
        let frame = match body.try_get_u8()? {
            b'w' => {
                let (start, wal_end) = (Lsn(body.try_get_u64()?), Lsn(body.try_get_u64()?));
                let _sent_at = body.try_get_i64()?; // the server's clock
                Self::XLogData { start, wal_end, data: body }
            }
            b'k' => {
                let wal_end = Lsn(body.try_get_u64()?);
                let _sent_at = body.try_get_i64()?;
                Self::Keepalive { wal_end, reply_requested: body.try_get_u8()? != 0 }
            }
            _ => return Ok(None),
        };
        Ok(Some(frame))
    }
}

/// What to do with a large message, judged by its beginning.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Large {
    /// Wait for the whole message, or for enough of it to judge.
    Wanted,
    /// Pass it over: nobody reads such messages.
    Unwanted,
    /// Pass it over, and report an insert beyond the limit.
    Oversized { bytes: usize, head: Bytes },
}

impl Large {
    /// Reads the beginning of a message of `length` bytes, tag and length included.
    pub(crate) fn judge(length: usize, here: &[u8], insert_limit: usize) -> Self {
        /// Tag and length; kind, two positions and a time.
        const HEADERS: usize = 5 + 25;
        let Some((headers, plugin)) = here.split_at_checked(HEADERS) else { return Self::Wanted };
        let bytes = length.saturating_sub(HEADERS);
        if (headers.first(), headers.get(5)) != (Some(&b'd'), Some(&b'w')) {
            return Self::Wanted;
        }
        // The first byte of the plugin's message
        // (<https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>).
        match plugin.first() {
            Some(b'M' | b'U' | b'D') => Self::Unwanted,
            Some(b'I') if bytes > insert_limit => match plugin.get(..HEAD) {
                Some(head) => Self::Oversized { bytes, head: Bytes::copy_from_slice(head) },
                None => Self::Wanted,
            },
            _ => Self::Wanted,
        }
    }
}

/// A standby status update that has not been written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// The position before which everything is durable here.
    pub(crate) flushed: Lsn,
    /// Whether the server should answer with a keepalive.
    pub(crate) reply: bool,
}

impl Status {
    /// Merges two statuses: a position never moves back, and a question is never lost.
    pub(crate) fn merge(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier else { return self };
        Self { flushed: self.flushed.max(earlier.flushed), reply: self.reply || earlier.reply }
    }

    /// Writes the status as a `CopyData`.
    pub(crate) fn encode(self, out: &mut BytesMut) {
        const LENGTH: u32 = 4 + 1 + 3 * 8 + 8 + 1;
        out.put_u8(b'd');
        out.put_u32(LENGTH);
        out.put_u8(b'r');
        // Written, flushed, applied: a reader that does not replay has only one position to report.
        for _ in 0..3 {
            out.put_u64(self.flushed.0);
        }
        out.put_i64(clock_us());
        out.put_u8(self.reply.into());
    }
}

/// The protocol's clock: microseconds since 2000-01-01. The server only shows it, in `pg_stat_replication.reply_time`.
fn clock_us() -> i64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_2000 = unix.saturating_sub(std::time::Duration::from_secs(POSTGRES_EPOCH_S));
    i64::try_from(since_2000.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_status_is_laid_out_as_the_protocol_says() {
        let mut out = BytesMut::new();
        Status { flushed: Lsn(0x0102_0304_0506_0708), reply: true }.encode(&mut out);
        let lsn = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(out[..6], *b"d\0\0\0\x26r");
        assert_eq!(out[6..30], [lsn, lsn, lsn].concat());
        assert_eq!(out.len(), 1 + 0x26);
        assert_eq!(out[38], 1);
    }

    #[test]
    fn merged_statuses_keep_the_furthest_position_and_the_question() {
        let earlier = Status { flushed: Lsn(9), reply: true };
        assert_eq!(Status { flushed: Lsn(7), reply: false }.merge(Some(earlier)), earlier);
        assert_eq!(Status { flushed: Lsn(7), reply: false }.merge(None).flushed, Lsn(7));
    }

    #[test]
    fn wal_and_keepalives_are_read() {
        let wal = b"w\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x07data";
        let data = Bytes::from_static(b"data");
        let expected = Frame::XLogData { start: Lsn(5), wal_end: Lsn(6), data };
        assert_eq!(Frame::parse(Bytes::from_static(wal)).unwrap(), Some(expected));
        let keepalive = b"k\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x07\x01";
        let expected = Frame::Keepalive { wal_end: Lsn(5), reply_requested: true };
        assert_eq!(Frame::parse(Bytes::from_static(keepalive)).unwrap(), Some(expected));
    }

    #[test]
    fn the_debug_form_shows_no_data() {
        let frame = Frame::XLogData { start: Lsn(5), wal_end: Lsn(6), data: Bytes::from_static(b"secret") };
        assert!(!format!("{frame:?}").contains("secret"));
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Frame::parse(body.into());
        }
    }
}
