//! The relay's state and figures for metrics and health checks. The session publishes them regularly, and never waits
//! for a reader.
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
use crate::{peer::ServerPeer, sink::BrokerKind};

/// After this time without an iteration, the session's loop counts as dead.
pub const PULSE_LIMIT: Duration = Duration::from_secs(10);

/// Interval at which a relay that waits for a server shows that it is alive.
const BEAT: Duration = Duration::from_secs(1);

/// The relay's state and figures, shared with their readers.
#[derive(Debug)]
pub struct Observed {
    view: Mutex<View>,
    started: Instant,
    /// Time of the loop's last iteration, in milliseconds since `started`.
    pulse: AtomicU64,
    spans: SpanCounts,
}

/// Numbers of finished spans; 0 without a collector.
#[derive(Clone, Debug, Default)]
pub struct SpanCounts {
    /// Spans that the collector has taken.
    pub exported: Arc<AtomicU64>,
    /// Spans that were lost.
    pub dropped: Arc<AtomicU64>,
}

impl Observed {
    /// The state of a relay that starts now, and publishes to a broker of this kind.
    pub fn new(broker: &'static BrokerKind) -> Self {
        let started = Instant::now();
        Self {
            view: Mutex::new(View::new(broker, started)),
            started,
            pulse: AtomicU64::new(0),
            spans: SpanCounts::default(),
        }
    }

    /// A copy of the current state and figures.
    pub fn view(&self) -> View {
        self.lock().clone()
    }

    /// The numbers of finished spans.
    pub fn spans(&self) -> &SpanCounts {
        &self.spans
    }

    /// Time since the loop's last iteration.
    pub fn since_pulse(&self) -> Duration {
        let pulse = Duration::from_millis(self.pulse.load(Relaxed));
        self.started.elapsed().saturating_sub(pulse)
    }

    /// Whether the loop's last iteration is recent.
    pub fn is_alive(&self) -> bool {
        self.since_pulse() <= PULSE_LIMIT
    }

    /// Waits for the future, and meanwhile shows that the relay is alive. Cancellation-safe if the future is.
    pub(crate) async fn waiting<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        loop {
            self.beat();
            if let Ok(done) = tokio::time::timeout(BEAT, &mut future).await {
                return done;
            }
        }
    }

    /// Sets the service's phase.
    pub(crate) fn enters(&self, phase: Phase) {
        self.beat();
        self.lock().enters(phase, Instant::now());
    }

    /// Sets the database's host after a connection to it was made.
    pub fn connected(&self, database: ServerPeer) {
        self.lock().database = Some(database);
    }

    /// Publishes a session's figures.
    pub(crate) fn publish(&self, shown: Shown) {
        self.beat();
        self.lock().publish(shown, Instant::now());
    }

    /// Counts a slot that was over its limit and was dropped.
    pub(crate) fn slot_dropped(&self) {
        self.lock().slots_dropped += 1;
    }

    /// Counts events that retention has deleted.
    pub fn retention_deleted(&self, events: u64) {
        self.lock().retention.deleted += events;
    }

    /// Sets the number of old events that retention did not delete in its last round through the table.
    pub fn retention_kept_back(&self, kept_back: i64) {
        self.lock().retention.kept_back = Some(kept_back);
    }

    /// Counts a failed round of retention.
    pub fn retention_failed(&self) {
        self.lock().retention.failures += 1;
    }

    /// Keeps the counts of a session that has ended; the next session counts from 0.
    pub(crate) fn session_ended(&self) {
        self.lock().session_ended();
    }

    fn beat(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.pulse.store(now, Relaxed);
    }

    /// Locks the view. It can be read even after a thread has panicked, because no writer leaves it half written.
    fn lock(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
