//! One session: from a connected database to its loss, or to the drain at the end.
//!
//! A single loop owns all state. Nothing in it waits but the `select!`; each arm is cancellation-safe, and no task
//! shares anything with it.

mod broker;
mod desk;
mod ending;
mod intake;
mod link;
mod unsent;
mod write_back;

use std::{
    future::Future,
    pin::{Pin, pin},
    time::{Duration, Instant},
};

use amqp_publisher::PublishConfig;
use pg_replication::ReplicationStream;
use tokio::{
    task::JoinSet,
    time::{Sleep, sleep_until},
};
use tracing::{info, warn};

pub use self::ending::{Drained, SessionError};
use self::{broker::Told, desk::Desk, ending::connection_lost, intake::Intake, link::Link};
use crate::{
    config::Config,
    deferred::Deferred,
    dispatch::Dispatch,
    lsn::Lsn,
    progress::Progress,
    repeats::Repeats,
    resync::Resync,
    settle::{Batching, Settling},
    sink::rabbitmq::Publisher,
    snapshot::Snapshot,
    store::Store,
};

/// At most so often is an advanced LSN reported, beside the regular status updates.
const STATUS_PAUSE: Duration = Duration::from_millis(100);

/// What a session starts with.
pub struct Parts {
    /// The started stream.
    pub stream: ReplicationStream,
    /// What its slot has confirmed.
    pub confirmed: Lsn,
    /// The SQL connection.
    pub store: Store,
    /// The task that drives it.
    pub connection: JoinSet<Result<(), tokio_postgres::Error>>,
    /// Settings of the broker's side.
    pub publish: PublishConfig,
    /// A connection to the broker, if there is one already.
    pub publisher: Option<Publisher>,
    /// How often a status update goes out at least.
    pub status_interval: Duration,
    /// A part of the log was left out of the stream, since the server cannot send it; taken after that.
    pub passed_over: Option<Snapshot>,
    /// The session before this one met a row that is larger than any event: this one tries each row before it reads it, once.
    pub careful: bool,
    /// A pause of the whole process after which another relay may soon take over.
    pub stands_still_after: Duration,
}

/// The session's state.
pub struct Session<'a> {
    config: &'a Config,
    stream: ReplicationStream,
    intake: Intake,
    desk: Desk,
    connection: JoinSet<Result<(), tokio_postgres::Error>>,
    link: Link,
    told: Told,
    dispatch: Dispatch,
    settling: Settling,
    progress: Progress,
    resync: Resync,
    deferred: Deferred,
    status: Status,
    /// When an event last left memory.
    moved_at: Instant,
    /// When the loop was last at its beginning, and how long ago that may be.
    turned_at: Instant,
    stands_still_after: Duration,
    full_since: Option<Instant>,
    /// When the publication and the table are looked at in any case.
    check_at: Instant,
    /// The publication as it was when last looked at, and whether to look again; the stream waits for that.
    publication: Option<String>,
    looks_at_publication: bool,
    /// What the log has told of statements that fail.
    trouble: Repeats,
    /// No scan before this time: the last one failed.
    scan_pause: Option<Instant>,
    /// Passes, and looks for what is due, try each row before they read it, until one has read all.
    careful_pass: bool,
    careful_due: bool,
    /// When the pass that runs was started; and before when keys that spilled, and replays, call for no other.
    pass_started: Instant,
    refill_at: Instant,
    /// Whether the last scan of the table was one for events that are due.
    scanned_due: bool,
    /// The mode that the log has told last.
    announced_live: Option<bool>,
    /// Whether the last operation of the store wrote verdicts.
    settled_last: bool,
    drain_until: Option<Instant>,
}

struct Status {
    interval: Duration,
    sent: Lsn,
    sent_at: Instant,
    asked: bool,
}

impl<'a> Session<'a> {
    /// A session over connected parts.
    pub fn new(config: &'a Config, parts: Parts) -> Self {
        let now = Instant::now();
        let mut resync = Resync::new(now);
        if let Some(snapshot) = &parts.passed_over {
            resync.passed_over(snapshot);
        }
        Self {
            config,
            stream: parts.stream,
            intake: Intake::default(),
            desk: Desk::new(parts.store),
            connection: parts.connection,
            link: Link::new(parts.publish, parts.publisher),
            told: Told::default(),
            dispatch: Dispatch::new(config.limits(), config.policy()),
            settling: Settling::new(Batching { max: config.settle_batch, interval: config.settle_interval }),
            progress: Progress::new(parts.confirmed),
            resync,
            deferred: Deferred::new(now),
            status: Status { interval: parts.status_interval, sent: Default::default(), sent_at: now, asked: false },
            moved_at: now,
            turned_at: now,
            stands_still_after: parts.stands_still_after,
            full_since: None,
            check_at: now + config.check_interval,
            publication: None,
            looks_at_publication: true,
            trouble: Repeats::default(),
            scan_pause: None,
            careful_pass: parts.careful,
            careful_due: parts.careful,
            pass_started: now,
            refill_at: now,
            scanned_due: true, // the pass comes first
            announced_live: None,
            settled_last: false,
            drain_until: None,
        }
    }

    /// Runs until the database is lost, or until `shutdown` is ready and everything in flight is settled.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<Drained, SessionError> {
        let mut shutdown = pin!(shutdown);
        let mut timer: Pin<Box<Sleep>> = Box::pin(sleep_until(Instant::now().into()));
        loop {
            let now = Instant::now();
            let pause = now.duration_since(self.turned_at);
            if pause >= self.stands_still_after {
                return Err(SessionError::StoodStill(pause));
            }
            self.turned_at = now;
            self.pump(now).await?;
            if let Some(drained) = self.drained(now) {
                self.finish().await;
                return Ok(drained);
            }
            let wake = self.next_timer(now);
            if timer.deadline() != wake.into() {
                timer.as_mut().reset(wake.into());
            }
            // In order of priority: what frees memory comes before what fills it.
            tokio::select! { biased;
                () = &mut shutdown, if self.drain_until.is_none() => self.begin_drain(),
                ended = self.connection.join_next() => return Err(connection_lost(ended)),
                finished = self.desk.next() => self.store_finished(finished?)?,
                news = self.link.next() => self.broker_news(news),
                frame = self.stream.next(), if self.reads_stream(now) => self.take_frames(frame?)?,
                () = &mut timer => {}
            }
        }
    }

    /// Starts whatever can be started now.
    async fn pump(&mut self, now: Instant) -> Result<(), SessionError> {
        self.tell_sums(now);
        self.park_if_stuck(now);
        if self.link.is_open() && self.drain_until.is_none() {
            let batch = self.dispatch.next_batch(self.may_publish(), now);
            if !batch.is_empty() {
                self.link.publish(batch);
            }
        }
        self.leave_behind();
        if self.desk.is_idle() {
            self.start_store_operation(now);
        }
        self.report_status(now).await
    }

    /// How many events may be handed to the broker now. Those whose verdicts wait to be written count as well, beyond
    /// one batch on its way and one filling: a crash repeats no more than these bounds, and what is put aside.
    fn may_publish(&self) -> usize {
        let unconfirmed = self.config.in_flight.saturating_sub(self.dispatch.in_flight());
        let bound = self.config.in_flight + 2 * self.config.settle_batch + self.settling.aside();
        unconfirmed.min(bound.saturating_sub(self.dispatch.unsettled()))
    }

    /// Tells the server how far everything is settled: regularly, when it asks, and soon after an advance.
    async fn report_status(&mut self, now: Instant) -> Result<(), SessionError> {
        let since = now.duration_since(self.status.sent_at);
        let advanced = self.progress.flushed() > self.status.sent;
        if self.status.asked || since >= self.status.interval || (advanced && since >= STATUS_PAUSE) {
            self.status.sent = self.progress.flushed();
            self.status.sent_at = now;
            self.status.asked = false;
            self.stream.status(self.status.sent, false).await?;
        }
        Ok(())
    }

    fn next_timer(&self, now: Instant) -> Instant {
        let status_pause = if self.progress.flushed() > self.status.sent { STATUS_PAUSE } else { self.status.interval };
        let away = self.link.away_since().map(|since| since + self.config.park_after);
        [
            Some(self.status.sent_at + status_pause),
            Some(self.check_at),
            self.scan_pause,
            self.settling.due(),
            self.settling.next_look(),
            self.resync.next_timer(),
            self.deferred.next_timer(),
            self.dispatch.next_round(),
            self.dispatch.refusing_since().map(|since| since + self.config.park_after),
            self.told.sums_at(),
            away,
            self.full_since.map(|since| since.max(self.moved_at) + self.config.park_after),
            self.drain_until,
        ]
        .into_iter()
        .flatten()
        // A time that has passed waits for something else than time.
        .filter(|at| *at > now)
        .min()
        .unwrap_or(now + self.status.interval)
    }

    fn begin_drain(&mut self) {
        self.drain_until = Some(Instant::now() + self.config.shutdown_timeout);
        info!(target: "relay", state = %"draining", in_flight = self.dispatch.in_flight(), "stopping: finishing what is in flight");
    }

    /// Whether the drain is over, and how it went.
    fn drained(&self, now: Instant) -> Option<Drained> {
        let until = self.drain_until?;
        if self.dispatch.in_flight() == 0 && self.settling.is_done() && self.desk.is_idle() {
            Some(Drained::Clean)
        } else {
            (now >= until).then(|| Drained::DeadlinePassed { unsettled: self.dispatch.len() })
        }
    }

    async fn finish(mut self) {
        // Only PostgreSQL's log depends on it: the verdicts are in the table.
        if let Err(error) = self.stream.status(self.progress.flushed(), false).await {
            warn!(target: "relay", %error, "could not acknowledge at the end");
        }
        info!(target: "relay", state = %"stopped", acknowledged = %self.progress.flushed(), "stopped");
        self.stream.stop().await;
        self.link.close().await;
    }
}
