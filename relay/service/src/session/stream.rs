//! Translates the replication stream's frames into inputs of the core.

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

/// Prefix of the logical message by which the status trigger announces rows that are `PENDING` again.
const REPLAYED: &[u8] = b"outbox";

#[derive(Default)]
pub(super) struct Reader {
    decoder: Decoder,
    /// The table as the stream last described it, and the positions of its columns.
    table: Option<(Arc<Relation>, Result<Layout, BadRow>)>,
    /// Commit time of the transaction that is being read, in microseconds since the Unix epoch.
    committed_at_us: Option<i64>,
    warnings: Repeats,
}

impl Reader {
    /// Reads a frame and passes its meaning, if it concerns the core, to `input`.
    pub(super) fn read(&mut self, frame: Frame, input: impl FnOnce(Streamed<'_>)) -> Result<(), SessionError> {
        let data = match frame {
            Frame::XLogData { data, .. } => data,
            Frame::Keepalive { wal_end, reply_requested } => {
                input(Streamed::Keepalive { wal_end: Lsn(wal_end.0), reply_requested });
                return Ok(());
            }
            Frame::Oversized { bytes, head } => {
                if self.decoder.table_of_insert(&head).is_none_or(is_outbox) {
                    input(Streamed::TooLarge { bytes });
                }
                return Ok(());
            }
            Frame::Warning(warning) => {
                // A process that keeps the stream waiting is named in a warning twice a second.
                if let (true, times) = self.warnings.count(&warning.to_string()) {
                    warn!(target: "relay", %warning, times, "warning from the server");
                }
                if warning.publication_skipped() {
                    input(Streamed::PublicationSkipped);
                }
                return Ok(());
            }
        };
        let message = self.decoder.decode(data).map_err(|error| SessionError::Unreadable(error.to_string()))?;
        match message {
            Message::Begin { final_lsn, commit_time_us, xid } => {
                self.committed_at_us = Some(commit_time_us);
                input(Streamed::Begin { xid, final_lsn: Lsn(final_lsn.0) });
            }
            Message::Commit { end_lsn, .. } => input(Streamed::Commit { end_lsn: Lsn(end_lsn.0) }),
            // The publication may contain other tables, if somebody has added them.
            Message::Insert { relation, tuple } if is_outbox(&relation) => {
                let fields: Vec<Option<&[u8]>> = tuple.columns().map(Column::bytes).collect();
                let committed_at_us = self.committed_at_us;
                match self.layout(&relation) {
                    Ok(layout) => input(Streamed::Insert(&Row::new(layout, &fields).committed_at(committed_at_us))),
                    Err(error) => input(Streamed::InsertWithoutColumns(error.to_string())),
                }
            }
            Message::Message { transactional: true, prefix, .. } if prefix == REPLAYED => input(Streamed::Replayed),
            Message::Relation(relation) if is_outbox(&relation) => input(Streamed::TableDescribed),
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
