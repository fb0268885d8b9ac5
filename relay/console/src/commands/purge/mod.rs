//! `purge`: deletes finished events, old ones or those with the given ids, by retention's own functions. So the same
//! events stay: those that hold their keys, are locked by others, or whose deletion is refused.

mod by_age;
mod by_ids;

use std::time::Duration;

use outbox_service::{
    Config,
    error::{Kind, RunError},
    legible::role_argument,
    store::sql::MAY_CALL,
};
use serde::Serialize;
use uuid::Uuid;

use crate::{
    commands::filter::word,
    format::{count, escaped},
    queries::{
        finished::{Deleted, RETENTION_FUNCTIONS},
        session::{Grant, Session},
    },
    terminal::{
        Answer,
        output::{Form, Output, note},
        query_args::length,
    },
};

/// Longest time of one step.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Delete finished events: those that are old, or those with these IDs
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Finished events of any age
    #[arg(value_name = "ID", conflicts_with = "older_than")]
    ids: Vec<Uuid>,
    /// Only events that became SENT or FAILED longer ago than this, as 12h, 7d or 4w
    #[arg(long, value_name = "TIME", value_parser = length)]
    older_than: Option<Duration>,
    /// Which events: SENT, FAILED or BOTH; nobody can replay a deleted event [default: SENT; with IDs both]
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = word(&["SENT", "FAILED", "BOTH"]))]
    status: Option<String>,
    /// Only count
    #[arg(long)]
    dry_run: bool,
    /// Do not ask, and do not count first
    #[arg(long, short = 'y')]
    yes: bool,
    #[command(flatten)]
    form: Form,
}

impl Options {
    /// Returns the status of the events to delete; `None` for both.
    fn status(&self) -> Option<&str> {
        let otherwise = if self.ids.is_empty() { "SENT" } else { "BOTH" };
        Some(self.status.as_deref().unwrap_or(otherwise)).filter(|status| *status != "BOTH")
    }
}

/// The result.
#[derive(Debug, Default, Serialize)]
struct Done {
    /// Events that may be deleted; null if they were not counted.
    matched: Option<i64>,
    deleted: i64,
    /// Events that stay because they hold their keys; counted in a dry run too.
    holding: i64,
    /// Events that stay because others have locked them.
    locked: i64,
    /// Events whose deletion was refused.
    refused: i64,
    /// The first event whose deletion was refused, with PostgreSQL's error.
    refused_id: Option<Uuid>,
    refused_because: Option<String>,
    dry_run: bool,
    /// The events were finished before this time; null with ids.
    before: Option<String>,
}

impl Done {
    /// Counts refused deletions, and keeps the first for the note.
    fn refuse(&mut self, events: i64, one: Option<(Uuid, String)>) {
        self.refused += events;
        if self.refused_id.is_none() {
            (self.refused_id, self.refused_because) = one.unzip();
        }
    }

    /// Adds the counts of some pages.
    fn take(&mut self, step: Deleted) {
        self.deleted += step.deleted;
        self.holding += step.holding;
        self.locked += step.locked;
        self.refuse(step.refused, step.refusal);
    }

    /// Prints what was deleted, for people.
    fn print_deleted(&self) {
        note(&format!("Deleted {}.", count(self.deleted, "event")));
    }

    /// Prints what stays, why, and what to do about it, for people.
    fn print_kept(&self) {
        if let Some(id) = self.refused_id {
            let because = escaped(self.refused_because.as_deref().unwrap_or_default());
            let which = if self.refused == 1 { "It is" } else { "One is" };
            note(&format!("{} cannot be deleted. {which} {id}: {because}.", count(self.refused, "event")));
        }
        if self.holding > 0 {
            let holds = if self.holding == 1 { "holds its key" } else { "hold their keys" };
            let events = count(self.holding, "event");
            note(&format!("{events} {holds} and may not be deleted. `outbox-relay release` ends a hold."));
        }
        if self.locked > 0 {
            let are = if self.locked == 1 { "was" } else { "were" };
            note(&format!("{} {are} locked by others. Purge again later.", count(self.locked, "event")));
        }
    }
}

pub(super) async fn run(config: &Config, mut options: Options) -> Result<Answer, RunError> {
    if options.ids.is_empty() && options.older_than.is_none() {
        return Err(RunError::new(Kind::Usage, "neither an ID nor an age is given, so nothing is deleted").hint(
            "--older-than 30d deletes events that became SENT 30 days ago or earlier; --dry-run only counts them",
        ));
    }
    let session = Session::open(config, "purge", Grant::Operate, STEP_LIMIT).await?;
    let mut output = Output::new(options.form);
    let may = session.answer(session.client.query_one(MAY_CALL, &[&RETENTION_FUNCTIONS])).await?;
    let may: bool = may.try_get(0).map_err(|error| session.failed(error))?;
    if !may && !options.dry_run {
        let role = config.database_url.user();
        return Err(RunError::new(Kind::NotPermitted, format!("the role {role:?} may not delete events"))
            .hint(format!("as the outbox's owner: SELECT outbox.grant_maintain({})", role_argument(&role))));
    }
    options.ids.sort_unstable();
    options.ids.dedup();
    if options.ids.is_empty() {
        by_age::run(&session, &options, &mut output).await
    } else {
        by_ids::run(&session, &options, &mut output).await
    }
}
