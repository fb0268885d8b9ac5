//! The service: one session after the other until it is told to stop.

mod startup;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use outbox_core::Backoff;
use tracing::warn;

use self::startup::{After, Inherited};
pub use self::startup::{InitReport, SlotState, init};
pub(crate) use self::startup::{broker_error, connect_error, replication_connect_error};
use crate::{
    admin::Admin,
    config::Config,
    error::{Kind, RunError, chain},
    observe::{Observed, Phase},
    repeats::Repeats,
    session::SessionError,
};

/// Pauses between sessions: a database that restarts is back in seconds.
const RECONNECT: Backoff = Backoff { base: Duration::from_millis(200), max: Duration::from_secs(10) };

/// Relays until `shutdown` is ready, then drains.
///
/// What is wrong at the start ends it, with a reason: a wrong password does not become right. Once a session has
/// started, every failure is taken to pass, and another session follows.
pub async fn run(config: Config, shutdown: impl Future<Output = ()> + Send) -> Result<(), RunError> {
    let observed = Arc::new(Observed::new());
    let _admin = Admin::start(&config, &observed)?;
    let ended = relay(&config, shutdown, &observed).await;
    observed.enters(Phase::Stopped);
    ended
}

async fn relay(
    config: &Config,
    shutdown: impl Future<Output = ()> + Send,
    observed: &Arc<Observed>,
) -> Result<(), RunError> {
    let mut shutdown = Shutdown(Some(Box::pin(shutdown)));
    let connected = async {
        let publisher = startup::connect_broker(config).await?;
        startup::connect_all(config, Inherited { publisher: Some(publisher), ..Inherited::default() }, observed).await
    };
    let mut session = tokio::select! {
        session = observed.waiting(connected) => session?,
        () = shutdown.requested() => return Ok(()),
    };
    let (mut failures, mut jitter) = (0, fastrand::Rng::new());
    loop {
        let since = Instant::now();
        let walsender = Some(session.walsender());
        observed.enters(Phase::AtWork);
        let after = match session.run(shutdown.requested()).await {
            Ok(()) => return Ok(()),
            Err(error @ SessionError::DrainTimeout { .. }) => {
                return Err(RunError::new(Kind::DrainTimeout, error.to_string()).hint(
                    "their rows are still PENDING and are published again at the next start, with the same ids",
                ));
            }
            Err(error) if shutdown.was_requested() => {
                return Err(RunError::new(Kind::Database, "lost the database while finishing what was in flight")
                    .hint("rows without a verdict are still PENDING and are published again at the next start, with the same ids")
                    .source(error));
            }
            Err(error) => {
                warn!(target: "relay", state = %"disconnected", error = chain(&error), "the session ended; connecting again");
                observed.enters(Phase::Disconnected { error: Some(chain(&error)) });
                After::of(&error)
            }
        };
        // One that fails again at once must not publish the same events over and over.
        if since.elapsed() >= RECONNECT.max {
            failures = 0;
        }
        let (ended, mut away) = (Instant::now(), Repeats::default());
        session = loop {
            failures += 1;
            tokio::select! {
                () = shutdown.requested() => return Ok(()),
                () = observed.waiting(tokio::time::sleep(RECONNECT.delay(failures, &mut jitter))) => {}
            }
            tokio::select! {
                () = shutdown.requested() => return Ok(()),
                connected = observed.waiting(startup::connect_all(config, Inherited { publisher: None, after, walsender }, observed)) => match connected {
                    Ok(session) => break session,
                    Err(error) => {
                        observed.enters(Phase::Disconnected { error: Some(error.to_string()) });
                        if let (true, tries) = away.count(&error.to_string()) {
                            warn!(target: "relay", %error, tries, for = ?ended.elapsed(), "no connection to the database; trying again");
                        }
                    }
                },
            }
        };
    }
}

/// The request to stop: it may be asked for again after it was made.
struct Shutdown<'a>(Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>);

impl Shutdown<'_> {
    fn was_requested(&self) -> bool {
        self.0.is_none()
    }

    async fn requested(&mut self) {
        if let Some(request) = &mut self.0 {
            request.await;
            self.0 = None;
        }
    }
}
