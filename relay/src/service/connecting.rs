//! Connects to both servers, each for as long as it takes, and tells people what keeps it waiting.
//!
//! ```text
//!            ┌─ broker: lets the relay in, or refuses, or is away ─┐
//! the start ─┤                                                     ├─▶ session ─ lost ─▶ both again
//!            └─ database: the slot is taken, the stream has begun ─┘
//! ```
//!
//! A session begins when the database is ready: without a broker it leaves events to the table and moves the slot on. At the start,
//! what will not resolve itself ends the relay with its exit code, on either side. The start is over for the database with the first
//! session, and for the broker with the first connection to it. Two things may be about to change, and are waited for: a password that
//! stands in a file, for a while, and an earlier schema, whose upgrade may come after the relay's.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use outbox_core::{Backoff, Notice};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::startup::{self, Database, Inherited};
use crate::{
    config::Config,
    error::{Kind, RunError},
    observe::{Observed, Phase},
    repeats::Repeats,
    session::Session,
    sink::{
        Sink,
        rabbitmq::{FirstConnection, RabbitMq},
    },
    traces::Traces,
};

/// Pauses between sessions: a database that restarts is back in seconds.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(200), max: Duration::from_secs(10) };

/// How long the start waits for the broker's answer before it turns to the database as well. A broker that refuses answers in a blink,
/// and then the relay must not have made a slot, which would hold the WAL back.
const BROKER_FIRST: Duration = Duration::from_secs(3);

/// Makes one session after the other.
pub(super) struct Connecting<'a> {
    config: &'a Config,
    broker: Arc<FirstConnection>,
    observed: &'a Arc<Observed>,
    traces: &'a Traces,
    /// When the start began.
    since: Instant,
    /// Whether there has been a session.
    has_started: bool,
    /// Sessions and attempts in a row that have failed.
    failures: u32,
    jitter: fastrand::Rng,
}

impl<'a> Connecting<'a> {
    pub(super) fn new(config: &'a Config, observed: &'a Arc<Observed>, traces: &'a Traces) -> Self {
        let broker = Arc::new(FirstConnection::new(!config.no_wait));
        let (since, jitter) = (Instant::now(), fastrand::Rng::new());
        Self { config, broker, observed, traces, since, has_started: false, failures: 0, jitter }
    }

    /// A session has ended, after so long.
    pub(super) fn session_ended(&mut self, lasted: Duration) {
        // One that fails again at once must not publish the same events over and over.
        if lasted >= RECONNECT.max {
            self.failures = 0;
        }
        self.failures += 1;
    }

    /// Waits for both servers, for the broker only if it lets the relay in before the database does. An error ends the relay.
    pub(super) async fn session(&mut self, inherited: Inherited) -> Result<Session<RabbitMq>, RunError> {
        let mut sink = startup::sink(self.config, Arc::clone(&self.broker), self.traces)?;
        let mut away = Repeats::default();
        if !self.has_started {
            let first = news(&mut sink, &mut away);
            if self.config.no_wait {
                first.await?;
            } else if let Ok(told) = timeout(BROKER_FIRST, first).await {
                told?;
            }
        }
        let config = self.config;
        let database = {
            let mut database = pin!(self.database(inherited));
            loop {
                tokio::select! {
                    database = &mut database => break database?,
                    told = news(&mut sink, &mut away), if sink.away_since().is_some() => told?,
                }
            }
        };
        self.has_started = true;
        Ok(startup::begin(config, database, sink, self.observed))
    }

    fn start_waits(&self, error: &RunError) -> bool {
        let may_change = error.kind() == Kind::Authentication && self.config.database_url.may_change(self.since);
        !self.config.no_wait && (error.may_pass() || may_change)
    }

    async fn database(&mut self, inherited: Inherited) -> Result<Database, RunError> {
        let (since, mut away) = (Instant::now(), Repeats::default());
        loop {
            if self.failures > 0 {
                sleep(RECONNECT.delay(self.failures, &mut self.jitter)).await;
            }
            match startup::take_over(self.config, inherited, self.observed).await {
                Ok(database) => return Ok(database),
                Err(error) if !self.has_started && !self.start_waits(&error) => return Err(error),
                Err(error) => {
                    self.failures += 1;
                    self.observed.enters(Phase::Disconnected { error: Some(error.to_string()) });
                    if let (true, tries) = away.count(&error.to_string()) {
                        startup::tell(&error, tries, since.elapsed());
                    }
                }
            }
        }
    }
}

/// Waits for news of a broker to which there is no connection, and tells it. Cancellation-safe.
async fn news(sink: &mut RabbitMq, away: &mut Repeats) -> Result<(), RunError> {
    match sink.next().await? {
        Notice::Ready { host, .. } => info!(target: "relay", host, "connected to the broker"),
        Notice::Away { error, since, .. } => {
            if let (true, tries) = away.count(&error) {
                let lasted = since.elapsed();
                warn!(target: "relay", error, tries, for = ?lasted, "no connection to the broker; trying again");
            }
        }
        Notice::Outcomes(_) | Notice::Blocked(_) | Notice::Unblocked => {} // none comes without a connection
    }
    Ok(())
}
