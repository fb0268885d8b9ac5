//! What the relay shows of itself, to whoever asks at its edge: the session publishes it now and then, and never waits for a reader.
//!
//! ```text
//!  session ──▶ Watch ─┐
//!  service ──▶ phases ─┴─▶ Observed ──▶ View ──▶ /metrics, /healthz, /readyz, systemd
//! ```

mod readiness;
mod view;
mod watch;

use std::{
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

pub use self::{
    readiness::Readiness,
    view::{Phase, Retention, State, View},
};
pub(crate) use self::{view::Shown, watch::Watch};
use crate::peer::ServerPeer;

/// A loop that has not turned for so long is taken for dead.
pub const PULSE_LIMIT: Duration = Duration::from_secs(10);

/// How often whoever waits for something shows that it lives.
const BEAT: Duration = Duration::from_secs(1);

/// What the relay's parts say of themselves, for others to read.
#[derive(Debug)]
pub struct Observed {
    view: Mutex<View>,
    started: Instant,
    /// When the loop last turned, in milliseconds since `started`.
    pulse: AtomicU64,
    spans: SpanCounts,
}

/// How many spans of sampled events have had which end; none without a collector.
#[derive(Clone, Debug, Default)]
pub struct SpanCounts {
    /// Taken by the collector.
    pub exported: Arc<AtomicU64>,
    /// Lost.
    pub dropped: Arc<AtomicU64>,
}

impl Observed {
    /// A relay that starts now.
    pub fn new() -> Self {
        let started = Instant::now();
        Self { view: Mutex::new(View::new(started)), started, pulse: AtomicU64::new(0), spans: SpanCounts::default() }
    }

    /// What is known now.
    pub fn view(&self) -> View {
        self.lock().clone()
    }

    /// How many spans have had which end.
    pub fn spans(&self) -> &SpanCounts {
        &self.spans
    }

    /// How long ago the loop has turned.
    pub fn since_pulse(&self) -> Duration {
        let pulse = Duration::from_millis(self.pulse.load(Relaxed));
        self.started.elapsed().saturating_sub(pulse)
    }

    /// Whether the loop turns.
    pub fn is_alive(&self) -> bool {
        self.since_pulse() <= PULSE_LIMIT
    }

    /// Shows that the loop turns for as long as it waits for this. Cancellation-safe if the future is.
    pub(crate) async fn waiting<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        loop {
            self.beat();
            if let Ok(done) = tokio::time::timeout(BEAT, &mut future).await {
                return done;
            }
        }
    }

    /// The relay does something else from now on.
    pub(crate) fn enters(&self, phase: Phase) {
        self.beat();
        self.lock().enters(phase, Instant::now());
    }

    /// There is a connection to the database.
    pub fn connected(&self, database: ServerPeer) {
        self.lock().database = Some(database);
    }

    /// A session has figures to show.
    pub(crate) fn publish(&self, shown: Shown) {
        self.beat();
        self.lock().publish(shown, Instant::now());
    }

    /// A slot was let go, since it kept too much.
    pub(crate) fn slot_let_go(&self) {
        self.lock().slots_let_go += 1;
    }

    /// Retention has deleted events.
    pub fn retention_deleted(&self, events: u64) {
        self.lock().retention.deleted += events;
    }

    /// Retention has looked through the table, and so many events are old and stay.
    pub fn retention_kept_back(&self, kept_back: i64) {
        self.lock().retention.kept_back = Some(kept_back);
    }

    /// Retention could not go through the table.
    pub fn retention_failed(&self) {
        self.lock().retention.failures += 1;
    }

    /// The session is over; the next one counts anew.
    pub(crate) fn session_ended(&self) {
        self.lock().session_ended();
    }

    fn beat(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.pulse.store(now, Relaxed);
    }

    /// Nobody leaves it half written, so what a thread that panicked has left can be read.
    fn lock(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Observed {
    fn default() -> Self {
        Self::new()
    }
}
