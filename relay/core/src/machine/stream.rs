//! What becomes of what is streamed.

use std::{sync::Arc, time::Instant};

use uuid::Uuid;

use crate::{
    dispatch::Admission,
    faults::{self, Fault},
    interface::{End, PassReason, Published, Reason, Report, Row, Streamed},
    machine::Core,
    parts::{Fate, Origin},
};

impl Core {
    pub(crate) fn streamed(&mut self, streamed: Streamed<'_>, now: Instant) {
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
                self.tally.counts.streamed += 1;
                if let Err(error) = self.inserted(row, now) {
                    self.end(End::Unreadable(error));
                }
            }
            Streamed::InsertWithoutColumns(error) => self.inserted_without_columns(error, now),
            Streamed::TooLarge { bytes } => match self.resync.fate() {
                Fate::Take => self.park(Reason::RowTooLarge { bytes }, now),
                Fate::Leave => self.resync.left_to_table(),
                Fate::Covered => {} // the last pass has read it
            },
            // Paced, for anybody may write such a message, and each pass holds the stream.
            Streamed::Replayed => {
                self.tally.pass_for(PassReason::Replay);
                self.resync.replayed(now.max(self.turns.refill_at));
            }
            // While the table was not published nothing of it was streamed, so the stream waits for a look at the publication.
            Streamed::TableDescribed => {
                self.turns.told_of_columns = false;
                self.turns.looks_at_publication = true;
            }
            Streamed::PublicationSkipped => self.turns.check_at = now,
            Streamed::Keepalive { wal_end, reply_requested } => {
                self.progress.keepalive(wal_end);
                self.tally.read_to(wal_end);
                self.status.asked |= reply_requested;
            }
        }
    }

    fn inserted(&mut self, row: &dyn Row, now: Instant) -> Result<(), String> {
        match self.resync.fate() {
            Fate::Leave => self.resync.left_to_table(),
            Fate::Covered => {
                // The pass found it first. The commit must still wait for its verdict.
                let id = row.id()?;
                if self.dispatch.knows(&id) {
                    self.owe(&id, now);
                }
            }
            Fate::Take if !row.is_pending() => {} // restored from a dump
            Fate::Take if row.is_deferred() => self.deferred.inserted(self.resync.current, now),
            Fate::Take => {
                let event = Arc::new(row.event()?);
                let id = event.id;
                match self.dispatch.admit(event, self.resync.current) {
                    Admission::Admitted => self.owe(&id, now),
                    Admission::Known => {}
                    Admission::Spilled => self.resync.left_to_table(),
                }
            }
        }
        Ok(())
    }

    /// The transaction being read is settled only when the event is.
    fn owe(&mut self, id: &Uuid, now: Instant) {
        if let Some(ticket) = self.progress.owe(now) {
            self.dispatch.attach(id, ticket);
        }
    }

    /// The table has all columns, and the publication can be repaired.
    fn inserted_without_columns(&mut self, error: String, now: Instant) {
        if !std::mem::replace(&mut self.turns.told_of_columns, true) {
            self.report(Report::ColumnsMissing(error));
            self.turns.check_at = now;
        }
        match self.resync.fate() {
            Fate::Leave => self.resync.left_to_table(),
            Fate::Covered => {}
            Fate::Take => self.park(Reason::ColumnsMissing, now),
        }
    }

    /// If the publication has changed, what was missed goes before what is streamed now: that is left to the table until a pass has
    /// read all.
    pub(crate) fn published(&mut self, published: Published, now: Instant) {
        self.turns.looks_at_publication = false;
        let Published { identity, changed_by, snapshot, writers } = published;
        let before = self.turns.publication.replace(identity.clone());
        let is_same = identity.is_some() && before.as_ref() == Some(&identity);
        let is_first_look = before.is_none() && !self.resync.is_live();
        let mut unpublished = writers.unwrap_or_else(|| snapshot.running().collect());
        if is_first_look {
            // One that began after the change is streamed, unless it emitted before the change committed:
            // docs/delivery.md names that.
            let is_older = |xid: u32| changed_by.iter().any(|change| snapshot.precedes(xid, *change));
            unpublished.retain(|xid| identity.is_none() || is_older(*xid));
            if !faults::is_on(Fault::FirstLookTrusted) {
                self.resync.await_unstreamed(unpublished);
            }
            return;
        }
        if is_same || faults::is_on(Fault::PublicationTrusted) {
            return;
        }
        if self.resync.is_live() {
            self.report(Report::Parked(Reason::PublicationChanged));
            self.park(Reason::PublicationChanged, now);
        }
        self.resync.await_unstreamed(unpublished);
    }
}
