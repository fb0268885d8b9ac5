//! From the replication stream's frames to what the core is told.

use std::sync::Arc;

use outbox_core::{Lsn, Streamed};
use pg_replication::{
    Frame,
    pgoutput::{Column, Decoder, Message, Relation},
};
use tracing::warn;

use super::SessionError;
use crate::{
    repeats::Repeats,
    store::{BadRow, Layout, Row},
};

/// Prefix of the logical message by which the status trigger tells of rows that are `PENDING` again.
const REPLAYED: &[u8] = b"outbox";

#[derive(Default)]
pub(super) struct Reader {
    decoder: Decoder,
    /// The table as the stream last described it, and where its columns stand.
    table: Option<(Arc<Relation>, Result<Layout, BadRow>)>,
    /// When the transaction that is being read committed.
    committed_at_us: Option<i64>,
    warnings: Repeats,
}

impl Reader {
    /// Reads a frame and hands on what it says.
    pub(super) fn read(&mut self, frame: Frame, tell: impl FnOnce(Streamed<'_>)) -> Result<(), SessionError> {
        let data = match frame {
            Frame::XLogData { data, .. } => data,
            Frame::Keepalive { wal_end, reply_requested } => {
                tell(Streamed::Keepalive { wal_end: Lsn(wal_end.0), reply_requested });
                return Ok(());
            }
            Frame::Oversized { bytes, head } => {
                if self.decoder.table_of_insert(&head).is_none_or(is_outbox) {
                    tell(Streamed::TooLarge { bytes });
                }
                return Ok(());
            }
            Frame::Warning(warning) => {
                // Whoever keeps the stream waiting is named twice a second.
                if let (true, times) = self.warnings.count(&warning.to_string()) {
                    warn!(target: "relay", %warning, times, "warning from the server");
                }
                if warning.publication_skipped() {
                    tell(Streamed::PublicationSkipped);
                }
                return Ok(());
            }
        };
        let message = self.decoder.decode(data).map_err(|error| SessionError::Unreadable(error.to_string()))?;
        match message {
            Message::Begin { final_lsn, commit_time_us, xid } => {
                self.committed_at_us = Some(commit_time_us);
                tell(Streamed::Begin { xid, final_lsn: Lsn(final_lsn.0) });
            }
            Message::Commit { end_lsn, .. } => tell(Streamed::Commit { end_lsn: Lsn(end_lsn.0) }),
            // Someone may have added other tables to the publication.
            Message::Insert { relation, tuple } if is_outbox(&relation) => {
                let fields: Vec<Option<&[u8]>> = tuple.columns().map(Column::bytes).collect();
                let committed_at_us = self.committed_at_us;
                match self.layout(&relation) {
                    Ok(layout) => tell(Streamed::Insert(&Row::new(layout, &fields).committed_at(committed_at_us))),
                    Err(error) => tell(Streamed::InsertWithoutColumns(error.to_string())),
                }
            }
            Message::Message { transactional: true, prefix, .. } if prefix == REPLAYED => tell(Streamed::Replayed),
            Message::Relation(relation) if is_outbox(&relation) => tell(Streamed::TableDescribed),
            Message::Insert { .. } | Message::Message { .. } | Message::Relation(_) | Message::Other(_) => {}
        }
        Ok(())
    }

    fn layout(&mut self, relation: &Arc<Relation>) -> &Result<Layout, BadRow> {
        let known = self.table.take().filter(|(known, _)| Arc::ptr_eq(known, relation));
        let table = known.unwrap_or_else(|| {
            let layout = Layout::new(relation.columns.iter().map(|column| column.name.as_str()));
            (Arc::clone(relation), layout)
        });
        &self.table.insert(table).1
    }
}

fn is_outbox(relation: &Relation) -> bool {
    relation.namespace == "outbox" && relation.name == "events"
}
