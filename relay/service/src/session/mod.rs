//! One session: from a connected database to its loss, or to the drain at the end.
//!
//! A single loop owns all state: it reports every input to the core and carries out the core's effects. Only its
//! `select!` waits, each arm of which is cancellation-safe, and no task shares state with the loop.

mod ending;
mod log;
mod slot;
mod slot_blocker;
mod slot_log;
mod source;
mod stream;
mod table;
mod unsent;

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::{Instant, SystemTime},
};

use outbox_core::{Core, Effect, End, Input, Lsn, Now, Report};
use pg_replication::Frame;
use tokio::{
    task::JoinSet,
    time::{Sleep, sleep_until},
};
use tracing::{debug, info, warn};

pub(crate) use self::{
    ending::SessionError,
    source::{Making, Source},
};
use self::{
    ending::connection_lost, log::Log, slot::Slot, slot_log::SlotLog, source::Brought, stream::Reader, table::Table,
};
use crate::{
    error::chain,
    observe::{Observed, Shown, Watch},
    sink::Sink,
    store::{SlotLook, Store, StoreError},
};

/// Most frames handled before the loop turns to its other work, which takes some 100 µs.
const FRAMES_AT_A_TIME: usize = 64;

/// The session's state.
pub(crate) struct Session<S> {
    core: Core,
    source: Source,
    reader: Reader,
    table: Table,
    connection: JoinSet<Result<(), tokio_postgres::Error>>,
    sink: S,
    log: Log,
    watch: Watch,
    slot: Slot,
    slot_log: SlotLog,
    is_shutting_down: bool,
    /// The server's reason to refuse the repair of an incomplete publication; `None`: the publication is complete.
    unpublished: Option<String>,
}

impl<S: Sink> Session<S> {
    /// A session of a stream, a store with the task `connection` that drives its connection, and a broker.
    /// `publication` and `slot` appear in the log, and the session's figures in `observed`.
    #[expect(clippy::too_many_arguments, reason = "each is a part of its own")]
    pub(crate) fn new(
        core: Core,
        source: Source,
        store: Store,
        connection: JoinSet<Result<(), tokio_postgres::Error>>,
        sink: S,
        publication: String,
        (slot, max_slot_wal): (String, Option<u64>),
        observed: Arc<Observed>,
    ) -> Self {
        let (table, log, watch) = (Table::new(store), Log::new(publication, sink.kind()), Watch::new(observed));
        let (slot_log, slot) = (SlotLog::new(slot.clone(), max_slot_wal), Slot::new(slot));
        let (reader, unpublished, is_shutting_down) = (Reader::default(), None, false);
        Self {
            core,
            source,
            reader,
            table,
            connection,
            sink,
            log,
            watch,
            slot,
            slot_log,
            unpublished,
            is_shutting_down,
        }
    }

    /// Sets the server's reason to refuse the repair of an incomplete publication.
    pub(crate) fn without_publication(self, unpublished: Option<String>) -> Self {
        Self { unpublished, ..self }
    }

    /// The server process that streams, or creates the slot.
    pub(crate) fn walsender(&self) -> i32 {
        self.source.pid()
    }

    /// Runs until the database is lost, or until `shutdown` is ready and everything in flight is settled.
    pub(crate) async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), SessionError> {
        let mut shutdown = pin!(shutdown);
        let mut timer: Pin<Box<Sleep>> = Box::pin(sleep_until(Instant::now().into()));
        loop {
            let now = read_clocks();
            if let Some(end) = self.carry_out(now).await? {
                return self.finish(end).await;
            }
            self.log.conditions(self.core.conditions(now.instant), now.instant);
            self.log.log_due_sums(now.instant);
            let shown = self.watch.iterate(now.instant, || {
                let unpublished = self.unpublished.as_deref();
                shown(&self.core, &self.sink, &self.source, &self.slot_log, unpublished, now.instant)
            });
            let wake = self.core.wake_at(now.instant).min(shown);
            let wake = self.log.sums_at().map_or(wake, |sums| wake.min(sums));
            if timer.deadline() != wake.into() {
                timer.as_mut().reset(wake.into());
            }
            // The arms are in order of priority: those that free memory come before those that fill it.
            tokio::select! { biased;
                () = &mut shutdown, if !self.is_shutting_down => {
                    self.is_shutting_down = true;
                    self.core.on(Input::Drain, read_clocks());
                }
                ended = self.connection.join_next() => return Err(connection_lost(ended)),
                finished = self.table.next() => self.core.on(Input::Table(finished?), read_clocks()),
                notice = self.sink.next() => self.core.on(Input::Sink(notice?), read_clocks()),
                seen = self.slot.next() => self.slot_seen(seen, read_clocks()),
                brought = self.source.next(self.core.reads_stream(now.instant)) => match brought? {
                    Brought::Frame(frame) => self.take_frames(frame)?,
                    Brought::Stream => self.core.on(Input::StreamStarted, read_clocks()),
                },
                () = &mut timer => {}
            }
        }
    }

    fn slot_seen(&mut self, seen: Result<Option<SlotLook>, StoreError>, now: Now) {
        let look = seen.unwrap_or_else(|error| {
            // If the connection is lost, another statement reports it.
            debug!(target: "relay", error = chain(&error), "the slot was not looked at");
            None
        });
        let size = look.map(|look| self.slot_log.looked(look, &self.core.figures(now.instant), now.instant));
        self.core.on(Input::Slot(size), now);
    }

    /// Carries out the core's effects until there are none left, or one ends the session.
    async fn carry_out(&mut self, now: Now) -> Result<Option<End>, SessionError> {
        while let Some(effect) = self.core.next(now) {
            match effect {
                Effect::Publish { batch, beside } => {
                    self.sink.publish(batch);
                    self.sink.publish_beside(beside);
                }
                Effect::ReadBack { since_us, older } => self.sink.read_back(since_us, older),
                Effect::ConnectAnew => self.sink.connect_anew(),
                Effect::Table(request) => self.table.start(request),
                Effect::Acknowledge(position) => self.acknowledge(position).await?,
                Effect::LookAtSlot { asks_who } => self.slot.look(self.table.store(), asks_who),
                Effect::Report(Report::SlotOverLimit { kept }) => self.slot_log.over_limit(kept),
                Effect::Report(Report::OtherSlotKeepsMore { kept }) => {
                    self.slot_log.other_keeps_more(kept, now.instant);
                }
                Effect::Report(report) => self.log.report(report, now.instant),
                Effect::End(end) => return Ok(Some(end)),
            }
        }
        Ok(None)
    }

    async fn acknowledge(&mut self, position: Lsn) -> Result<(), SessionError> {
        Ok(self.source.acknowledge(pg_replication::Lsn(position.0)).await?)
    }

    fn take_frames(&mut self, first: Frame) -> Result<(), SessionError> {
        let (now, mut next, mut taken) = (read_clocks(), Some(first), 0);
        while let Some(frame) = next {
            self.reader.read(frame, |streamed| self.core.on(Input::Stream(streamed), now))?;
            taken += 1;
            let goes_on = taken < FRAMES_AT_A_TIME && self.core.reads_stream(now.instant);
            next = if goes_on { self.source.try_next()? } else { None };
        }
        Ok(())
    }

    async fn finish(mut self, end: End) -> Result<(), SessionError> {
        let (unpublished, now) = (self.unpublished.as_deref(), Instant::now());
        self.watch.end(shown(&self.core, &self.sink, &self.source, &self.slot_log, unpublished, now));
        let drained = match end.clone() {
            End::Drained | End::SlotOverLimit { .. } => Ok(()),
            End::DrainTimeout { unsettled } => Err(SessionError::DrainTimeout { unsettled }),
            End::RepairRefused(error) => return Err(SessionError::RepairRefused(error)),
            End::PublishedAgain => return Err(SessionError::PublishedAgain),
            End::StoodStill(pause) => return Err(SessionError::StoodStill(pause)),
            End::Unreadable(error) => return Err(SessionError::Unreadable(error)),
        };
        let acknowledged = self.core.acknowledged();
        // A failure loses no event: the verdicts are in the table, and the server only keeps its WAL for longer.
        if let Err(error) = self.acknowledge(acknowledged).await {
            warn!(target: "relay", error = chain(&error), "could not acknowledge at the end");
        }
        let walsender = self.source.pid();
        if let End::SlotOverLimit { kept } = end {
            // Events without a verdict at the deadline are still PENDING.
            self.source.stop().await;
            let is_dropped = self.table.store().drop_slot(self.slot.name(), walsender).await?;
            return Err(SessionError::SlotDropped { kept, is_dropped });
        }
        info!(target: "relay", state = %"stopped", %acknowledged, "stopped");
        self.source.stop().await;
        if drained.is_ok() {
            // Closing waits for the broker's answer, for which there is no time after a drain that took too long.
            self.sink.close().await;
        }
        drained
    }
}

fn shown<S: Sink>(
    core: &Core,
    sink: &S,
    source: &Source,
    slot: &SlotLog,
    unpublished: Option<&str>,
    now: Instant,
) -> Shown {
    let making = slot.waits_for().filter(|_| !source.is_stream()).map(str::to_owned);
    let waits_for =
        making.or_else(|| unpublished.map(|error| format!("the publication's repair was refused: {error}")));
    Shown {
        figures: core.figures(now),
        sink: sink.figures(),
        silent_since: source.silent_since(),
        is_making_slot: !source.is_stream() || unpublished.is_some(),
        waits_for,
    }
}

fn read_clocks() -> Now {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Now { instant: Instant::now(), unix_us: i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX) }
}
