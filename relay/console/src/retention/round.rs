//! One round of retention through the table, in a session of its own.

use std::time::Instant;

use outbox_service::{
    Config,
    database::{
        ownership::{Ownership, Untrusted},
        postgres,
    },
    error::chain,
    legible::role_argument,
    observe::{Observed, Phase},
};
use tokio::time::sleep;
use tokio_postgres::{Client, Error, error::SqlState};
use uuid::Uuid;

use super::{
    policy::{KeptBack, Left, Policy},
    walk::Walk,
};
use crate::queries::finished::{Deleted, FILE, delete_older, is_of_one_step};

/// Settings of the session. Commits do not wait for the disk or a standby, because a step lost in a crash is repeated;
/// a step ends if it takes far too long; and a row that was changed meanwhile is read again, whatever the role's
/// default isolation is.
const SESSION_SETTINGS: &str =
    "SET synchronous_commit = off; SET statement_timeout = '60s'; SET default_transaction_isolation = 'read committed'";

/// The result of a round.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) deleted: u64,
    /// An event whose deletion was refused, and why.
    pub(super) refused: Option<(Uuid, String)>,
    /// The error of the first step that failed, while the others went on.
    step_failed: Option<Failed>,
}

/// The reason why a round failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: String,
    /// What to do; empty if the failure may resolve itself.
    pub(super) hint: String,
}

impl Failed {
    fn new(error: String) -> Self {
        Self { error, hint: String::new() }
    }

    fn of(error: &Error, config: &Config) -> Self {
        let role = config.database_url.user();
        let hint = if is_forbidden(error) {
            format!("as the outbox's owner: SELECT outbox.grant_maintain({})", role_argument(&role))
        } else {
            String::new()
        };
        Self { error: chain(error), hint }
    }
}

impl Round {
    /// Visits the page ranges that are due, as long as this relay is the active one.
    pub(super) async fn run(
        config: &Config,
        policy: Policy,
        walk: &mut Walk,
        observed: &Observed,
    ) -> Result<Self, Failed> {
        let name = format!("{} retention", config.application_name);
        let server = config.database_url.now().map_err(|bad| Failed::new(bad.to_string()))?;
        let (client, driver, _) =
            postgres::connect(&server, &name).await.map_err(|error| Failed::new(chain(&error)))?;
        let driver = tokio::spawn(driver);
        let mut round = Self::default();
        let untrusted = Ownership::of(&client).await.map(|ownership| ownership.untrusted());
        let walked = match untrusted {
            Ok(Some(Untrusted { what, to_do, .. })) => Err(Failed { error: what, hint: to_do }),
            Ok(None) => {
                round.walk(&client, config, policy, walk, observed).await.map_err(|error| Failed::of(&error, config))
            }
            Err(error) => Err(Failed::of(&error, config)),
        };
        drop(client); // this ends the driver
        let _ = driver.await;
        walked?;
        round.step_failed.take().map_or(Ok(round), Err)
    }

    async fn walk(
        &mut self,
        client: &Client,
        config: &Config,
        policy: Policy,
        walk: &mut Walk,
        observed: &Observed,
    ) -> Result<(), Error> {
        client.batch_execute(SESSION_SETTINGS).await?;
        let delete = client.prepare(&delete_older()).await?;
        let table = client.query_one(FILE, &[]).await?;
        let pages: i64 = table.try_get("pages")?;
        walk.is_in(table.try_get("file")?);
        walk.begin(u32::try_from(pages).unwrap_or(u32::MAX), Instant::now());
        let [sent, failed] = [policy.sent, policy.failed].map(|kept| kept.map(|kept| kept.as_secs_f64()));
        while let Some((from, length)) = walk.next(Instant::now()) {
            if observed.view().phase != Phase::AtWork {
                return Ok(());
            }
            let begun = Instant::now();
            match client.query_one(&delete, &[&sent, &failed, &from, &length]).await {
                Ok(row) => walk.visited(&self.take(Deleted::read(&row)?, observed), Instant::now()),
                Err(error) if is_of_one_step(&error) => {
                    walk.failed();
                    self.step_failed.get_or_insert(Failed::of(&error, config));
                }
                Err(error) => return Err(error),
            }
            // Retention works at most half of the time, so that it leaves the other half to the database's other work.
            sleep(begun.elapsed()).await;
        }
        let kept_back = walk.kept_back();
        observed.retention_kept_back(kept_back.holding + kept_back.refused);
        Ok(())
    }

    fn take(&mut self, step: Deleted, observed: &Observed) -> Left {
        let deleted = u64::try_from(step.deleted).unwrap_or(0);
        self.deleted += deleted;
        observed.retention_deleted(deleted);
        if let Some(refusal) = step.refusal {
            self.refused.get_or_insert(refusal);
        }
        let kept_back = KeptBack { holding: step.holding, refused: step.refused };
        Left { sent: step.sent_age, failed: step.failed_age, kept_back }
    }
}

fn is_forbidden(error: &Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}
