//! Connects to both servers, retries without a time limit, and logs the reason for waiting.
//!
//! ```text
//!            ┌─ broker: lets the relay in, or refuses, or is away ─┐
//! the start ─┤                                                     ├─▶ session ─ lost ─▶ both again
//!            └─ database: the slot is taken, the stream begins ───┘
//! ```
//!
//! A session begins when the database is ready; without a broker it leaves events in the table and advances the slot.
//!
//! During startup, a permanent failure of either server ends the relay with its exit code. Startup is tracked per
//! server: PostgreSQL counts as started with the first session, the broker with the first connection.
//!
//! Two failures count as transient because an operator may be about to correct them: a wrong password in a file, for
//! two minutes, and an earlier schema, whose upgrade may follow the relay's.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use outbox_core::{Backoff, Notice};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::{
    config::Config,
    error::{Kind, RunError},
    observe::{Observed, Phase},
    repeats::Repeats,
    session::Session,
    sink::{
        Connect, Sink, Spans,
        link::{FirstConnection, Link},
    },
    startup::{self, Database, Inherited},
    time::age,
    traces::Traces,
};

/// Pauses between sessions. A database that restarts is back within seconds.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(200), max: Duration::from_secs(10) };

/// How long the startup waits for the broker's answer before it connects to the database as well. A broker that refuses
/// the relay answers at once; the relay then ends without having created a slot, which would keep WAL.
const BROKER_FIRST: Duration = Duration::from_secs(3);

/// Connects for one session after the other.
pub(crate) struct Connecting<'a> {
    config: &'a Config,
    broker: Arc<FirstConnection>,
    observed: &'a Arc<Observed>,
    traces: &'a Traces,
    /// When the startup began.
    since: Instant,
    /// Whether the first session has begun.
    has_started: bool,
    /// Sessions and attempts that have failed in a row.
    failures: u32,
    jitter: fastrand::Rng,
}

impl<'a> Connecting<'a> {
    pub(crate) fn new(config: &'a Config, observed: &'a Arc<Observed>, traces: &'a Traces) -> Self {
        let broker = Arc::new(FirstConnection::new(!config.no_wait));
        let (since, jitter) = (Instant::now(), fastrand::Rng::new());
        Self { config, broker, observed, traces, since, has_started: false, failures: 0, jitter }
    }

    /// Counts the end of a session that lasted `lasted`.
    pub(crate) fn session_ended(&mut self, lasted: Duration) {
        // Sessions that fail soon after their start must be paused: each would publish the same events again.
        if lasted >= RECONNECT.max {
            self.failures = 0;
        }
        self.failures += 1;
    }

    /// Waits for both servers, but not for a broker that is still away when the database is ready. An error ends the
    /// relay.
    pub(crate) async fn session<C: Connect>(&mut self, inherited: Inherited) -> Result<Session<Link<C>>, RunError> {
        let broker = C::new(self.config, Spans::new(self.traces, C::KIND.label))?;
        let mut sink = Link::new(broker, Arc::clone(&self.broker));
        let mut away = Repeats::default();
        if !self.has_started {
            let first = log_notice(&mut sink, &mut away);
            if self.config.no_wait {
                first.await?;
            } else if let Ok(answered) = timeout(BROKER_FIRST, first).await {
                answered?;
            }
        }
        let config = self.config;
        let database = {
            let mut database = pin!(self.database(inherited, sink.abilities().reads_back));
            loop {
                tokio::select! {
                    database = &mut database => break database?,
                    logged = log_notice(&mut sink, &mut away), if sink.away_since().is_some() => logged?,
                }
            }
        };
        self.has_started = true;
        Ok(startup::begin(config, database, sink, self.observed))
    }

    /// Whether the startup retries after this error.
    fn start_waits(&self, error: &RunError) -> bool {
        let may_change = error.kind() == Kind::Authentication && self.config.database_url.may_change(self.since);
        !self.config.no_wait && (error.is_transient() || may_change)
    }

    async fn database(&mut self, inherited: Inherited, reads_back: bool) -> Result<Database, RunError> {
        let (since, mut away) = (Instant::now(), Repeats::default());
        loop {
            if self.failures > 0 {
                sleep(RECONNECT.delay(self.failures, &mut self.jitter)).await;
            }
            match startup::take_over(self.config, inherited, reads_back, self.observed).await {
                Ok(database) => return Ok(database),
                Err(error) if !self.has_started && !self.start_waits(&error) => return Err(error),
                Err(error) => {
                    self.failures += 1;
                    self.observed.enters(Phase::Disconnected { error: Some(error.to_string()) });
                    if let (true, tries) = away.count(&error.to_string()) {
                        startup::log_retry(&error, tries, since.elapsed());
                    }
                }
            }
        }
    }
}

/// Waits for the next notice of a broker without a connection, and logs it. Cancellation-safe.
async fn log_notice(sink: &mut impl Sink, away: &mut Repeats) -> Result<(), RunError> {
    match sink.next().await? {
        Notice::Ready { host, .. } => info!(target: "relay", host, "connected to the broker"),
        Notice::Away { error, since, .. } => {
            if let (true, tries) = away.count(&error) {
                warn!(target: "relay", error, tries, for = age(since.elapsed()), "no connection to the broker; trying again");
            }
        }
        Notice::Outcomes(_) | Notice::Blocked(_) | Notice::Unblocked => {} // cannot come without a connection
    }
    Ok(())
}
