//! What is owed and what has failed, as the database knows it: `outbox.health()`, over a connection of the edge's own.
//!
//! The dashboard asks the same for itself: it shows what its own role may see, which is weaker than the relay's, or nothing without one.

use std::time::{Duration, Instant};

use tokio::{sync::Mutex, task::AbortHandle, time::timeout};
use tokio_postgres::{Client, Row};
use tracing::{debug, warn};

use outbox_service::{
    Config,
    database::{ownership::Ownership, postgres},
    error::chain,
    numbers,
};

/// Looks cost little, change nothing, and give up soon.
const ONLY_LOOKS: &str =
    "SET default_transaction_read_only = on; SET statement_timeout = '2s'; SET lock_timeout = '500ms'";

/// What is owed, what has failed, and how the slot is.
const HEALTH: &str = "SELECT pending, retrying, scheduled, failed, keys_held,
            coalesce(extract(epoch FROM oldest_pending), 0)::float8 AS oldest_pending,
            coalesce(extract(epoch FROM oldest_retrying), 0)::float8 AS oldest_retrying,
            slot_active, slot_wal_status, slot_kept_bytes, slot_safe_bytes, slot_behind_bytes
     FROM outbox.health(slot => $1)";

/// An answer is good for so long, however many ask.
const FRESH: Duration = Duration::from_secs(5);
/// Whoever asks waits for so long at most.
const PATIENCE: Duration = Duration::from_secs(3);

/// A row of `outbox.health()`; times are in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Owed {
    pub(super) pending: i64,
    pub(super) oldest_pending: f64,
    pub(super) retrying: i64,
    pub(super) oldest_retrying: f64,
    pub(super) scheduled: i64,
    pub(super) failed: i64,
    pub(super) keys_held: i64,
    pub(super) slot: Option<Slot>,
}

impl Owed {
    /// How much waits, as the end of a sentence that says why.
    pub(super) fn sentence(&self) -> String {
        let waiting = self.pending + self.retrying;
        let kept = self
            .slot
            .as_ref()
            .and_then(|slot| slot.kept)
            .map(|bytes| format!("; PostgreSQL keeps {} of WAL", numbers::bytes(bytes)));
        match waiting {
            0 => kept.unwrap_or_default(),
            _ => {
                let oldest =
                    numbers::time(Duration::from_secs_f64(self.oldest_pending.max(self.oldest_retrying).max(0.0)));
                let wait = if waiting == 1 { "waits" } else { "wait" };
                let events = numbers::count(waiting, "event");
                format!("; {events} {wait} safely, the oldest for {oldest}{}", kept.unwrap_or_default())
            }
        }
    }
}

/// The slot, if this database has it; sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Slot {
    pub(super) is_active: bool,
    pub(super) wal_status: String,
    pub(super) kept: Option<i64>,
    /// `None`: without a limit.
    pub(super) safe: Option<i64>,
    pub(super) behind: Option<i64>,
}

/// Asks the database, at most every few seconds.
pub(super) struct Desk {
    config: Config,
    state: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    session: Option<(Client, AbortHandle)>,
    asked_at: Option<Instant>,
    answer: Option<Owed>,
    /// The database did not say so when it was last asked.
    is_silent: bool,
}

impl Known {
    /// Tells of it, the first time.
    fn missed(&mut self, error: &str) -> Option<Owed> {
        if std::mem::replace(&mut self.is_silent, true) {
            debug!(target: "relay", error, "the database still does not say what is owed");
        } else {
            warn!(target: "relay", error, "the database does not say what is owed: metrics and /readyz lack it; asking again");
        }
        None
    }
}

impl Desk {
    pub(super) fn new(config: Config) -> Self {
        Self { config, state: Mutex::default() }
    }

    /// What is known; `None`: the database does not answer.
    pub(super) async fn owed(&self) -> Option<Owed> {
        let mut known = self.state.lock().await;
        if known.asked_at.is_some_and(|at| at.elapsed() < FRESH) {
            return known.answer.clone();
        }
        let asked = timeout(PATIENCE, self.ask(&mut known.session)).await;
        known.asked_at = Some(Instant::now());
        known.answer = match asked {
            Ok(Ok(owed)) => {
                known.is_silent = false;
                Some(owed)
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

    async fn ask(&self, session: &mut Option<(Client, AbortHandle)>) -> Result<Owed, String> {
        let client = match session {
            Some((client, _)) => client,
            None => {
                // Not the relay's own name: whoever counts relays by it would count this one twice.
                let name = format!("{} health", self.config.application_name);
                let server = self.config.database_url.now().map_err(|bad| bad.to_string())?;
                let (client, driver, _) = postgres::connect(&server, &name).await.map_err(|error| chain(&error))?;
                let driver = tokio::spawn(async move {
                    let _ = driver.await; // whoever asks next is told
                });
                let (client, _) = session.insert((client, driver.abort_handle()));
                client.batch_execute(ONLY_LOOKS).await.map_err(|error| chain(&error))?;
                match Ownership::of(client).await.map_err(|error| chain(&error))? {
                    Ownership::Nothing => return Err("the extension outbox is not installed".to_owned()),
                    ownership => ownership.untrusted().map_or(Ok(()), |untrusted| Err(untrusted.what))?,
                }
                client
            }
        };
        let row = client.query_one(HEALTH, &[&self.config.slot]).await.map_err(|error| chain(&error))?;
        read(&row).map_err(|error| chain(&error))
    }
}

fn read(row: &Row) -> Result<Owed, tokio_postgres::Error> {
    let wal_status: Option<String> = row.try_get("slot_wal_status")?;
    let slot = match row.try_get::<_, Option<bool>>("slot_active")? {
        Some(is_active) => Some(Slot {
            is_active,
            wal_status: wal_status.unwrap_or_default(),
            kept: row.try_get("slot_kept_bytes")?,
            safe: row.try_get("slot_safe_bytes")?,
            behind: row.try_get("slot_behind_bytes")?,
        }),
        None => None,
    };
    Ok(Owed {
        pending: row.try_get("pending")?,
        oldest_pending: row.try_get("oldest_pending")?,
        retrying: row.try_get("retrying")?,
        oldest_retrying: row.try_get("oldest_retrying")?,
        scheduled: row.try_get("scheduled")?,
        failed: row.try_get("failed")?,
        keys_held: row.try_get("keys_held")?,
        slot,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_said_in_numbers_that_people_read() {
        let slot = Some(Slot { kept: Some(8_400_000), ..Slot::default() });
        let owed = Owed { pending: 12_418, oldest_pending: 185.3, slot, ..Owed::default() };
        assert_eq!(
            owed.sentence(),
            "; 12,418 events wait safely, the oldest for 3 min 5 s; PostgreSQL keeps 8204 kB of WAL"
        );
        let owed = Owed { retrying: 1, oldest_retrying: 2.0, ..Owed::default() };
        assert_eq!(owed.sentence(), "; 1 event waits safely, the oldest for 2 s");
        assert_eq!(Owed::default().sentence(), "");
    }
}
