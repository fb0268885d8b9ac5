//! From the stream into memory.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pg_replication::{
    Frame,
    pgoutput::{Column, Decoder, Message, Relation, Tuple},
};
use tracing::{info, warn};

use super::{Session, SessionError};
use crate::{
    dispatch::{Admission, LeftBehind},
    lsn::Lsn,
    resync::Route,
    row::{BadRow, Layout, Row},
    store::Published,
};

/// Frames handled before the loop looks after its other work again: some 100 µs.
const FRAMES_AT_A_TIME: usize = 64;

/// Prefix of the logical message by which the status trigger tells of rows that are `PENDING` again.
const BELL: &[u8] = b"outbox";

/// The stream's own state.
#[derive(Default)]
pub(super) struct Intake {
    decoder: Decoder,
    /// The table as the stream last described it.
    table: Option<(Arc<Relation>, Layout)>,
    /// A description by which no row can be read, once the log has told of it.
    unreadable: Option<Arc<Relation>>,
}

impl Session<'_> {
    /// Whether the stream is to be read now; TCP holds it back otherwise.
    pub(super) fn reads_stream(&self, now: Instant) -> bool {
        if self.drain_until.is_some() || self.desk.runs_whole_pass() || self.is_pass_next(now) {
            return false;
        }
        if self.looks_at_publication || self.resync.holds_stream() && self.can_scan(now) {
            return false;
        }
        !self.resync.is_live() || self.dispatch.has_room()
    }

    pub(super) fn take_frames(&mut self, first: Frame) -> Result<(), SessionError> {
        let now = Instant::now();
        self.take_frame(first, now)?;
        for _ in 1..FRAMES_AT_A_TIME {
            if !self.reads_stream(now) {
                break;
            }
            let Some(frame) = self.stream.try_next()? else { break };
            self.take_frame(frame, now)?;
        }
        Ok(())
    }

    fn take_frame(&mut self, frame: Frame, now: Instant) -> Result<(), SessionError> {
        let data = match frame {
            Frame::Keepalive { wal_end, reply_requested } => {
                self.progress.keepalive(wal_end);
                self.status.asked |= reply_requested;
                return Ok(());
            }
            Frame::Oversized { bytes, .. } => {
                self.pass_over_insert(bytes, now);
                return Ok(());
            }
            Frame::Warning(warning) => {
                warn!(target: "relay", %warning, "warning from the server");
                if warning.publication_skipped() {
                    self.check_at = now;
                }
                return Ok(());
            }
            Frame::XLogData { data, .. } => data,
        };
        let message = self.intake.decoder.decode(data).map_err(|error| SessionError::Unreadable(error.to_string()))?;
        match message {
            Message::Begin { final_lsn, xid, .. } => {
                self.progress.begin();
                self.resync.begin(xid, final_lsn);
            }
            Message::Commit { end_lsn, .. } => {
                self.progress.commit(end_lsn);
                self.resync.commit();
            }
            Message::Insert { relation, tuple } => self.take_insert(&relation, &tuple, now)?,
            // Paced, for anybody may write such a message, and each pass holds the stream.
            Message::Message { transactional: true, prefix, .. } if prefix == BELL => {
                self.resync.bell(now.max(self.refill_at));
            }
            Message::Relation(relation) => self.take_relation(&relation),
            Message::Message { .. } | Message::Other(_) => {}
        }
        Ok(())
    }

    /// The server describes the table before the first row, and again before the next one when the table or the publication may
    /// have changed. While the table was not published nothing of it was streamed, so the stream waits for a look at that.
    fn take_relation(&mut self, relation: &Relation) {
        self.looks_at_publication |= is_outbox(relation) && self.resync.is_live();
    }

    /// If the publication has changed, what was missed goes before what is streamed now: that is left to the table until a pass has
    /// read all.
    pub(super) fn take_publication(&mut self, published: Published, now: Instant) {
        self.looks_at_publication = false;
        let is_same = published.identity.is_some() && published.identity == self.publication;
        self.publication = published.identity;
        if self.resync.is_live() && !is_same {
            info!(target: "relay", publication = self.config.publication, "the publication has changed: reading what may not have been streamed");
            self.park(now);
            // One that runs now may have written while the table was not published.
            self.resync.passed_over(&published.snapshot);
        }
    }

    /// The publication leaves out columns: the table has them all, and the publication can be mended.
    fn leave_unreadable(&mut self, relation: &Arc<Relation>, error: &BadRow, route: Route, now: Instant) {
        if self.intake.unreadable.as_ref().is_none_or(|known| !Arc::ptr_eq(known, relation)) {
            self.intake.unreadable = Some(Arc::clone(relation));
            warn!(target: "relay", publication = self.config.publication, %error, "the publication leaves something out: events are read from the table");
            self.check_at = now;
        }
        if route == Route::Take {
            self.park(now);
        }
    }

    /// An insert too large to be streamed is left to the table, and what follows it with it.
    fn pass_over_insert(&mut self, bytes: usize, now: Instant) {
        if self.resync.route() == Route::Covered {
            return;
        }
        warn!(target: "relay", state = %"parked", bytes, "a row of the stream is too large to be held in memory: it is left to the table");
        self.announced_live = None;
        self.park(now);
    }

    fn take_insert(&mut self, relation: &Arc<Relation>, tuple: &Tuple, now: Instant) -> Result<(), SessionError> {
        if !is_outbox(relation) {
            return Ok(()); // someone has added a table to the publication
        }
        let unreadable = |error: BadRow| SessionError::Unreadable(error.to_string());
        let route = self.resync.route();
        if route == Route::Leave {
            self.resync.left_to_table();
            return Ok(());
        }
        if self.intake.table.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, relation)) {
            match Layout::new(relation.columns.iter().map(|column| column.name.as_str())) {
                Ok(layout) => self.intake.table = Some((Arc::clone(relation), layout)),
                Err(error) => {
                    self.leave_unreadable(relation, &error, route, now);
                    return Ok(());
                }
            }
        }
        let Some((_, layout)) = &self.intake.table else { return Ok(()) };
        let fields: Vec<Option<&[u8]>> = tuple.columns().map(Column::bytes).collect();
        let row = Row::new(layout, &fields);
        if route == Route::Covered {
            // The pass found it first. The commit must still wait for its verdict.
            let id = row.id().map_err(unreadable)?;
            if self.dispatch.knows(&id) {
                self.dispatch.attach(&id, self.progress.owe());
            }
            return Ok(());
        }
        if !row.is_pending() {
            return Ok(()); // restored from a dump
        }
        if row.is_deferred() {
            self.deferred.inserted(self.resync.current(), now);
            return Ok(());
        }
        let event = row.to_event().map_err(unreadable)?;
        let id = event.id;
        match self.dispatch.admit(event, self.resync.current()) {
            Admission::Admitted => self.dispatch.attach(&id, self.progress.owe()),
            Admission::Known => {}
            Admission::Spilled => self.resync.left_to_table(),
        }
        Ok(())
    }

    /// Parks when nothing can be published for longer than a moment: the slot must go on moving.
    pub(super) fn park_if_stuck(&mut self, now: Instant) {
        if self.drain_until.is_some() {
            return;
        }
        self.bear_refusal(now);
        if self.dispatch.knows_too_many_keys() && !self.desk.runs_whole_pass() && !self.is_pass_next(now) {
            self.announced_live = None;
            self.park(now);
        }
        if !self.resync.is_live() {
            return;
        }
        let patience = self.config.park_after;
        if self.link.away_since().is_some_and(|since| now.duration_since(since) >= patience) {
            warn!(target: "relay", state = %"parked", "the broker is away: events wait in the table, the slot moves on");
        } else if self.is_full_for(patience, now) || self.is_refused_and_full(patience, now) {
            let events = self.dispatch.len();
            warn!(target: "relay", state = %"parked", events, "memory is full of events that cannot leave: later ones wait in the table");
        } else {
            return;
        }
        self.announced_live = None;
        self.park(now);
    }

    fn park(&mut self, now: Instant) {
        self.progress.abandon();
        self.resync.park(now);
    }

    /// Whether the broker has refused everything for so long, and memory is full: what still leaves makes room for the table.
    fn is_refused_and_full(&self, patience: Duration, now: Instant) -> bool {
        let is_refused = self.dispatch.refusing_since().is_some_and(|since| now.duration_since(since) >= patience);
        is_refused && !self.dispatch.has_room()
    }

    /// Whether memory has been full, and nothing has left it, for so long.
    fn is_full_for(&mut self, patience: Duration, now: Instant) -> bool {
        if self.dispatch.has_room() {
            self.full_since = None;
            return false;
        }
        let full_since = *self.full_since.get_or_insert(now);
        now.duration_since(full_since.max(self.moved_at)) >= patience
    }

    /// What had to leave memory is found in the table again.
    pub(super) fn leave_behind(&mut self) {
        for LeftBehind { ticket, xid } in self.dispatch.take_left_behind() {
            self.resync.left_behind(xid);
            if let Some(ticket) = ticket {
                self.progress.settled(ticket);
            }
        }
    }

    /// Says once that a backlog is being worked off, and once that events are streamed again.
    pub(super) fn log_mode(&mut self, horizon: Lsn, has_more: bool) {
        let is_live = self.resync.is_live();
        if self.announced_live == Some(is_live) || !(is_live || has_more) {
            return;
        }
        self.announced_live = Some(is_live);
        if is_live {
            info!(target: "relay", state = %"streaming", horizon = %horizon, acknowledged = %self.progress.flushed(), in_memory = self.dispatch.len(), "streaming");
        } else {
            info!(target: "relay", state = %"parked", acknowledged = %self.progress.flushed(), "working off a backlog from the table");
        }
    }
}

fn is_outbox(relation: &Relation) -> bool {
    relation.namespace == "outbox" && relation.name == "events"
}
