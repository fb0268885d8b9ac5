//! Retention: deletes finished events once they are old, on a thread and a connection of its own, off the hot path. Of
//! several relays the active one does it; it knows the session only through [`observe`](outbox_service::observe).

mod policy;
mod round;
mod walk;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use outbox_core::Backoff;
use outbox_service::{
    Config,
    error::{Kind, RunError},
    observe::{Observed, Phase},
    repeats::{Reminder, Repeats},
};
use tokio::{runtime::Builder, sync::oneshot, time::sleep};
use tracing::{info, warn};

pub use self::policy::Policy;
use self::{
    policy::KeptBack,
    round::{Failed, Round},
    walk::Walk,
};

/// Interval of the checks whether this relay is the active one.
const PHASE_INTERVAL: Duration = Duration::from_secs(1);

/// Delay between two tries after a failure.
const RETRY: Backoff = Backoff { base: Duration::from_secs(1), max: Duration::from_secs(300) };

/// The running retention. Dropping it ends the work between two steps.
#[derive(Debug)]
pub struct Retention {
    _until: Option<oneshot::Sender<()>>,
}

impl Retention {
    /// Starts the thread of retention. If the policy never deletes anything, no thread starts.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub fn start(config: &Config, policy: Policy, observed: &Arc<Observed>) -> Result<Self, RunError> {
        let Some(walk) = Walk::new(policy, Instant::now()) else { return Ok(Self { _until: None }) };
        let (until, ended) = oneshot::channel::<()>();
        let worker = Worker { config: config.clone(), policy, walk, observed: Arc::clone(observed) };
        let cannot = |error| RunError::new(Kind::Internal, "cannot start the thread for retention").source(error);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        thread::Builder::new()
            .name("retention".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = worker.work() => {}
                        _ = ended => {}
                    }
                });
                runtime.shutdown_background();
            })
            .map_err(cannot)?;
        Ok(Self { _until: Some(until) })
    }
}

struct Worker {
    config: Config,
    policy: Policy,
    walk: Walk,
    observed: Arc<Observed>,
}

impl Worker {
    async fn work(mut self) {
        let (mut failures, mut repeats, mut refused, mut held) =
            (0, Repeats::default(), Reminder::default(), Reminder::default());
        let mut jitter = fastrand::Rng::new();
        loop {
            while self.observed.view().phase != Phase::AtWork {
                sleep(PHASE_INTERVAL).await;
            }
            let begun = Instant::now();
            match Round::run(&self.config, self.policy, &mut self.walk, &self.observed).await {
                Ok(round) => {
                    failures = 0;
                    log_round(&round, self.walk.kept_back(), begun.elapsed(), &mut refused, &mut held);
                    sleep(self.walk.every().saturating_sub(begun.elapsed())).await;
                }
                Err(Failed { error, hint }) => {
                    failures += 1;
                    self.observed.retention_failed();
                    if let (true, tries) = repeats.count(&error) {
                        warn!(target: "relay", error, hint, tries, "cannot delete old events; trying again");
                    }
                    sleep(RETRY.delay(failures, &mut jitter)).await;
                }
            }
        }
    }
}

fn log_round(round: &Round, kept_back: KeptBack, took: Duration, refused: &mut Reminder, held: &mut Reminder) {
    if round.deleted > 0 {
        info!(target: "relay", events = round.deleted, ?took, "deleted old events");
    }
    let now = Instant::now();
    if let Some((id, error)) = &round.refused
        && refused.is_due(error, 0, now)
    {
        let hint = format!("SELECT * FROM outbox.events WHERE id = '{id}'");
        warn!(target: "relay", events = kept_back.refused, error, hint, "old events cannot be deleted");
    }
    if kept_back.holding > 0 && held.is_due("", 0, now) {
        let hint = "SELECT * FROM outbox.events WHERE holds_key; a replay or a release ends a hold";
        warn!(target: "relay", events = kept_back.holding, hint, "old events are kept: later ones wait for them");
    }
}
