//! The backlog and the failed events, as `outbox.health()` reports them over a connection of the edge's own.
//!
//! The dashboard runs the same query over its own connection, because its role sees less than the relay's.

use std::time::{Duration, Instant};

use tokio::{sync::Mutex, task::AbortHandle, time::timeout};
use tokio_postgres::Client;
use tracing::{debug, warn};

use crate::queries::health::{self, Health};

use outbox_service::{
    Config,
    database::{ownership::Ownership, postgres},
    error::chain,
    numbers, time,
};

/// Settings of the session: queries are read-only and end soon.
const READ_ONLY_SESSION: &str =
    "SET default_transaction_read_only = on; SET statement_timeout = '2s'; SET lock_timeout = '500ms'";

/// Time for which an answer is reused, so that many scrapes cost one query.
const FRESH: Duration = Duration::from_secs(5);
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns the size of the backlog, as the end of a sentence that gives a reason.
pub(super) fn sentence(health: &Health) -> String {
    let waiting = health.pending + health.retrying;
    let kept = health.slot.kept_bytes.map(|bytes| format!("; PostgreSQL keeps {} of WAL", numbers::bytes(bytes)));
    if waiting == 0 {
        return kept.unwrap_or_default();
    }
    let ages = [health.oldest_pending_seconds, health.oldest_retrying_seconds];
    let oldest = ages.into_iter().flatten().fold(0.0, f64::max);
    let wait = if waiting == 1 { "waits" } else { "wait" };
    format!(
        "; {} {wait} safely, the oldest for {}{}",
        numbers::count(waiting, "event"),
        time::age(time::seconds(oldest)),
        kept.unwrap_or_default()
    )
}

/// Queries the backlog, at most once in [`FRESH`].
pub(super) struct BacklogMonitor {
    config: Config,
    state: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    session: Option<(Client, AbortHandle)>,
    asked_at: Option<Instant>,
    answer: Option<Health>,
    /// Whether the last query failed, so that only the first failure is a warning.
    is_silent: bool,
}

impl Known {
    /// Logs a failed query: the first as a warning, later ones at debug level.
    fn missed(&mut self, error: &str) -> Option<Health> {
        if std::mem::replace(&mut self.is_silent, true) {
            debug!(target: "relay", error, "the database still does not say how large the backlog is");
        } else {
            warn!(target: "relay", error, "the database does not say how large the backlog is: metrics and /readyz lack it; asking again");
        }
        None
    }
}

impl BacklogMonitor {
    pub(super) fn new(config: Config) -> Self {
        Self { config, state: Mutex::default() }
    }

    /// Returns the last answer, or a new one if that is too old; `None` while the database does not answer.
    pub(super) async fn health(&self) -> Option<Health> {
        let mut known = self.state.lock().await;
        if known.asked_at.is_some_and(|at| at.elapsed() < FRESH) {
            return known.answer.clone();
        }
        let asked = timeout(PATIENCE, self.ask(&mut known.session)).await;
        known.asked_at = Some(Instant::now());
        known.answer = match asked {
            Ok(Ok(health)) => {
                known.is_silent = false;
                Some(health)
            }
            Ok(Err(why)) => known.missed(&why),
            Err(_) => known.missed("no answer in time"),
        };
        if known.answer.is_none()
            && let Some((_, driver)) = known.session.take()
        {
            driver.abort();
        }
        known.answer.clone()
    }

    async fn ask(&self, session: &mut Option<(Client, AbortHandle)>) -> Result<Health, String> {
        let client = match session {
            Some((client, _)) => client,
            None => {
                // The name differs from the relay's own, because whoever counts relays by name would count this one
                // twice.
                let name = format!("{} health", self.config.application_name);
                let server = self.config.database_url.now().map_err(|bad| bad.to_string())?;
                let (client, driver, _) = postgres::connect(&server, &name).await.map_err(|error| chain(&error))?;
                let driver = tokio::spawn(async move {
                    let _ = driver.await; // the next query reports the error
                });
                let (client, _) = session.insert((client, driver.abort_handle()));
                client.batch_execute(READ_ONLY_SESSION).await.map_err(|error| chain(&error))?;
                match Ownership::of(client).await.map_err(|error| chain(&error))? {
                    Ownership::Nothing => return Err("the extension outbox is not installed".to_owned()),
                    ownership => ownership.untrusted().map_or(Ok(()), |untrusted| Err(untrusted.what))?,
                }
                client
            }
        };
        let row =
            client.query_one(&health::without_codes(), &[&self.config.slot]).await.map_err(|error| chain(&error))?;
        Health::read(&row).map_err(|error| chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::health::Slot;

    #[test]
    fn what_waits_is_said_in_numbers_that_people_read() {
        let slot = Slot { kept_bytes: Some(8_400_000), ..Slot::default() };
        let health = Health { pending: 12_418, oldest_pending_seconds: Some(185.3), slot, ..Health::default() };
        assert_eq!(
            sentence(&health),
            "; 12,418 events wait safely, the oldest for 3m 5s; PostgreSQL keeps 8204 kB of WAL"
        );
        let health = Health { retrying: 1, oldest_retrying_seconds: Some(2.0), ..Health::default() };
        assert_eq!(sentence(&health), "; 1 event waits safely, the oldest for 2.0s");
        assert_eq!(sentence(&Health::default()), "");
    }
}
