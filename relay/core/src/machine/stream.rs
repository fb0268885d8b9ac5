//! What follows from what the replication stream brings.

use std::{sync::Arc, time::Instant};

use uuid::Uuid;

use super::Core;
use crate::{
    dispatch::Admission,
    interface::{End, PassReason, Reason, Report, Row, Streamed},
    parts::{Coverage, Origin},
};

impl Core {
    pub(super) fn streamed(&mut self, streamed: Streamed<'_>, now: Instant) {
        match streamed {
            Streamed::Begin { xid, final_lsn } => {
                let origin = Origin { xid, commit: final_lsn };
                self.progress.begin(origin);
                self.resync.begin(origin);
                self.tally.read_to(final_lsn);
            }
            Streamed::Commit { end_lsn } => {
                self.progress.commit(end_lsn);
                self.tally.read_to(end_lsn);
                self.resync.commit();
            }
            Streamed::Insert(row) => {
                self.tally.streamed();
                if let Err(error) = self.inserted(row, now) {
                    self.ending.at_once(End::Unreadable(error));
                }
            }
            Streamed::InsertWithoutColumns(error) => self.inserted_without_columns(error, now),
            Streamed::TooLarge { bytes } => self.not_readable(Reason::RowTooLarge { bytes }, now),
            // These passes are paced, since any role may write such a message, and each pass pauses the stream.
            Streamed::Replayed => {
                self.tally.pass_for(PassReason::Replay);
                self.resync.replayed(self.operations.next_refill(now));
            }
            Streamed::TableDescribed => self.publication.described(),
            Streamed::PublicationSkipped => self.operations.check_at(now),
            Streamed::Keepalive { wal_end, reply_requested } => {
                self.progress.keepalive(wal_end);
                self.tally.read_to(wal_end);
                if reply_requested {
                    self.status.asked();
                }
            }
        }
    }

    /// The stream has started, in a session that began without one.
    pub(super) fn stream_started(&mut self, now: Instant) {
        if !self.publication.is_useless() {
            self.resync.stream_started(self.operations.runs_whole_pass(), now);
        }
    }

    fn inserted(&mut self, row: &dyn Row, now: Instant) -> Result<(), String> {
        match self.resync.coverage() {
            Coverage::LeaveInTable => self.resync.left_to_table(),
            Coverage::AlreadyRead => {
                // The pass found the event first. The commit must wait for its verdict all the same.
                let id = row.id()?;
                if self.dispatch.knows(&id) {
                    self.track(&id, now);
                }
            }
            Coverage::Publish if !row.is_pending() => {} // a restored dump inserts finished rows
            Coverage::Publish if row.is_deferred() => self.deferred.inserted(self.resync.current(), now),
            Coverage::Publish => {
                let event = Arc::new(row.event()?);
                let id = event.id;
                match self.dispatch.admit(event, self.resync.current()) {
                    Admission::Admitted => self.track(&id, now),
                    Admission::Known => {}
                    Admission::Spilled => self.resync.left_to_table(),
                }
            }
        }
        Ok(())
    }

    /// The current transaction is settled only once the event is.
    fn track(&mut self, id: &Uuid, now: Instant) {
        if let Some(ticket) = self.progress.track(now) {
            self.dispatch.attach(id, ticket);
        }
    }

    /// An insert lacked columns. The event is left to the table, which has all of them, and the publication is checked.
    fn inserted_without_columns(&mut self, error: String, now: Instant) {
        if self.publication.lacks_columns() {
            self.report(Report::ColumnsMissing(error));
            self.operations.check_at(now);
        }
        self.not_readable(Reason::ColumnsMissing, now);
    }

    /// A row of the current transaction can only be read from the table.
    fn not_readable(&mut self, reason: Reason, now: Instant) {
        match self.resync.coverage() {
            Coverage::Publish => self.park(reason, now),
            Coverage::LeaveInTable => self.resync.left_to_table(),
            Coverage::AlreadyRead => {}
        }
    }
}
