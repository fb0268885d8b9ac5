//! The service: runs one session after the other until a shutdown is requested.

use std::{future::Future, pin::Pin, sync::Arc, time::Instant};

use tracing::{info, warn};

use crate::{
    config::Config,
    connecting::Connecting,
    error::{Kind, RunError, chain},
    observe::{Observed, Phase},
    session::SessionError,
    sink::Connect,
    startup::{After, Inherited},
    time::age,
    traces::Traces,
};

/// Relays to a broker of the kind `C` until `shutdown` is ready, then drains.
///
/// During startup, the relay waits for a server that cannot be reached and for the upgrade of an earlier schema, unless
/// `no_wait` is set; a permanent failure, such as a wrong password, ends the relay.
/// Once a server has accepted the relay, every failure of that server counts as transient, and another session follows.
///
/// State and counts are published through `observed`.
///
/// # Errors
///
/// The failure that ended the startup, or that ended the relay before every event in flight had its verdict.
pub async fn run<C: Connect>(
    config: &Config,
    observed: &Arc<Observed>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let traces = Traces::start(config, observed)?;
    let ended = relay::<C>(config, shutdown, observed, &traces).await;
    observed.enters(Phase::Stopped);
    traces.finish().await;
    ended
}

async fn relay<C: Connect>(
    config: &Config,
    shutdown: impl Future<Output = ()> + Send,
    observed: &Arc<Observed>,
    traces: &Traces,
) -> Result<(), RunError> {
    let mut shutdown = Shutdown(Some(Box::pin(shutdown)));
    let mut connecting = Connecting::new(config, observed, traces);
    let mut inherited = Inherited::default();
    loop {
        let session = tokio::select! {
            session = observed.waiting(connecting.session::<C>(inherited)) => session?,
            () = shutdown.requested() => return Ok(()),
        };
        let since = Instant::now();
        let walsender = Some(session.walsender());
        observed.enters(Phase::AtWork);
        let after = match session.run(shutdown.requested()).await {
            Ok(()) => return Ok(()),
            Err(SessionError::Broker(error)) => return Err(error),
            Err(error @ SessionError::DrainTimeout { .. }) => {
                return Err(RunError::new(Kind::DrainTimeout, error.to_string()).hint(
                    "their rows are still PENDING and are published again at the next start, with the same ids",
                ));
            }
            Err(SessionError::SlotDropped { kept, is_dropped }) => {
                info!(target: "relay", state = %"disconnected", slot = config.slot, kept, is_dropped, "the slot was over its limit");
                observed.slot_dropped();
                observed.enters(Phase::Disconnected { error: Some("creating the slot again".to_owned()) });
                After::Usual
            }
            Err(error) if shutdown.was_requested() => {
                return Err(RunError::new(Kind::Database, "lost the database while finishing what was in flight")
                    .hint("rows without a verdict are still PENDING and are published again at the next start, with the same ids")
                    .source(error));
            }
            Err(error) => {
                let database = &config.database_url;
                warn!(target: "relay", state = %"disconnected", error = chain(&error), %database, lasted = age(since.elapsed()), "the session ended; connecting again");
                observed.enters(Phase::Disconnected { error: Some(chain(&error)) });
                After::of(&error)
            }
        };
        connecting.session_ended(since.elapsed());
        inherited = Inherited { after, walsender };
    }
}

/// The shutdown request; it can be awaited again after it has completed.
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
