//! The selection of events that `replay` and `release` share: events are selected, counted, shown, confirmed, and then
//! processed in batches. The ids that were counted are the ids that are processed, however the table changes meanwhile.

use std::{pin::pin, time::Duration};

use futures_util::TryStreamExt;
use outbox_service::{
    Config,
    error::{Kind, RunError},
};
use serde::Serialize;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::{
    commands::{
        events,
        filter::{Filter, Parameters},
    },
    format::{count, thousands},
    queries::{
        event::Event,
        search::{self, Among, Order},
        session::{Grant, Session},
    },
    terminal::{
        Answer,
        interrupt::Interrupt,
        output::{Form, Output, Progress, TRY_FIRST, confirmed, note},
        query_args::length,
    },
};

/// Events that one statement processes: a transaction of some ten milliseconds.
const BATCH: usize = 1000;

/// Longest name in `outbox.audit`, in bytes.
const MOST_OF_NAME: usize = 255;

/// Sets the operator's name, for `outbox.audit`.
const OPERATOR: &str = "SELECT set_config('outbox.operator', $1, false)";

/// Most events that a preview shows.
const SHOWN: usize = 10;

/// The arguments that select events, and confirm the change.
#[derive(Debug, clap::Args)]
pub(super) struct Selection {
    /// Events with these IDs
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<Uuid>,
    #[command(flatten)]
    pub(super) filter: Filter,
    /// All events, without a filter
    #[arg(long, conflicts_with = "ids")]
    pub(super) all: bool,
    /// At most this many, the oldest first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub(super) limit: Option<i64>,
    /// Only show which events would change
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(super) yes: bool,
    /// How long one statement may take, as 30s or 5m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = length)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    pub(super) form: Form,
}

/// The result.
#[derive(Debug, Default, Serialize)]
pub(super) struct Done {
    /// Events that the selection matched.
    pub(super) matched: usize,
    /// Events that were changed: fewer than matched if somebody else was quicker, and none after `--dry-run`.
    pub(super) done: i64,
    pub(super) dry_run: bool,
    /// Events that a batch no longer found as the selection had found them.
    #[serde(skip)]
    pub(super) changed: i64,
}

impl Done {
    /// Returns the end of the note about a finished command: how many of the events it did not find as they were.
    pub(super) fn rest(&self) -> String {
        match self.changed {
            0 => String::new(),
            changed => format!("; {} had changed meanwhile", count(changed, "event")),
        }
    }
}

impl Selection {
    /// Opens a session for `command`, fixes the times of the filter, and sets the operator's name for the audit.
    pub(super) async fn begin(&mut self, config: &Config, command: &str) -> Result<(Session, Output), RunError> {
        self.ids.sort_unstable();
        self.ids.dedup();
        let session = Session::open(config, command, Grant::Operate, self.timeout).await?;
        if self.ids.is_empty() && self.filter.is_empty() && !self.all {
            return Err(RunError::new(Kind::Usage, "neither an ID nor a filter is given")
                .hint("--all means all of them; --dry-run shows which"));
        }
        self.filter = std::mem::take(&mut self.filter).fix(&session).await?;
        let names = ["SUDO_USER", "USER", "LOGNAME"];
        let who = names.into_iter().filter_map(|name| std::env::var(name).ok()).find(|who| !who.is_empty());
        if let Some(mut who) = who {
            who.truncate(who.floor_char_boundary(MOST_OF_NAME));
            session.answer(session.client.execute(OPERATOR, &[&who])).await?;
        }
        Ok((session, Output::new(self.form)))
    }

    /// Prints the result as JSON, also of work that an error has `ended`, and a note for people if a signal has. The
    /// answer is whether everything was done.
    pub(super) fn end(
        &self,
        done: &Done,
        ended: Result<(), RunError>,
        interrupt: &Interrupt,
        mut output: Output,
    ) -> Result<Answer, RunError> {
        if output.json {
            output.object(done)?;
        }
        ended?;
        let matched = i64::try_from(done.matched).unwrap_or(i64::MAX);
        if let Some(code) = interrupt.code().filter(|_| done.done + done.changed < matched) {
            note(&format!(
                "Interrupted: {} of {} done, the oldest first. What is done stays done.",
                thousands(done.done),
                count(matched, "event")
            ));
            return Ok(Answer::Interrupted(code));
        }
        let is_all = done.matched > 0 && done.matched >= self.ids.len().min(self.most());
        // Of events chosen by a filter, some may have been deleted or replayed meanwhile; each id was asked for.
        let is_done = done.dry_run || done.done >= if self.ids.is_empty() { 1 } else { matched };
        Ok(if is_all && is_done { Answer::Yes } else { Answer::No })
    }

    /// Returns how many events the selection may have at most.
    fn most(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// Finds the ids of the selected events, status by status, the oldest first. Each id that was asked for and does
    /// not fit is named, unless the limit may have left it out.
    pub(super) async fn choose<'s>(
        &self,
        session: &Session,
        statuses: &[(Among, Option<&'s str>)],
    ) -> Result<Vec<(Option<&'s str>, Vec<Uuid>)>, RunError> {
        let (mut chosen, mut all) = (Vec::new(), Vec::new());
        for (among, status) in statuses {
            let ids = self.find(session, (*among, *status), self.most().saturating_sub(all.len())).await?;
            all.extend_from_slice(&ids);
            chosen.push((*status, ids));
        }
        if all.len() < self.most() {
            events::note_missing(&self.ids, &all);
        }
        Ok(chosen)
    }

    /// Finds the ids of at most `limit` of the selected events, the oldest first.
    async fn find(
        &self,
        session: &Session,
        (among, status): (Among, Option<&str>),
        limit: usize,
    ) -> Result<Vec<Uuid>, RunError> {
        let ids = Some(self.ids.as_slice()).filter(|ids| !ids.is_empty());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters = Parameters { filter: &self.filter, status, ids, limit };
        let query = search::ids(among);
        let mut rows = pin!(session.answer(session.client.query_raw(&query, parameters.list())).await?);
        let mut found = Vec::new();
        while let Some(row) = session.answer(rows.try_next()).await? {
            found.push(row.try_get(0).map_err(|error| session.failed(error))?);
        }
        Ok(found)
    }

    /// Prints the first of the events, and asks for confirmation. `verb` is the change, such as `replay`.
    pub(super) async fn is_confirmed(
        &self,
        session: &Session,
        verb: &str,
        ids: &[Uuid],
        output: &mut Output,
    ) -> Result<bool, RunError> {
        let what = count(i64::try_from(ids.len()).unwrap_or(i64::MAX), "event");
        if !output.json && (self.dry_run || !self.yes) {
            let shown = ids.get(..SHOWN).unwrap_or(ids);
            let filter = Filter::default();
            let parameters = Parameters { filter: &filter, status: None, ids: Some(shown), limit: i64::MAX };
            let query = search::events(Among::Ids, false, Order::OldestFirst);
            let rows = session.answer(session.client.query(&query, &parameters.list())).await?;
            let read = rows.iter().map(|row| Event::read(row, false)).collect::<Result<Vec<_>, _>>();
            let table = events::list(&read.map_err(|error| session.failed(error))?, output.in_colour());
            output.print(&table)?;
            if let Some(more @ 1..) = ids.len().checked_sub(SHOWN) {
                output.print(&format!("… and {} more\n", thousands(i64::try_from(more).unwrap_or(i64::MAX))))?;
            }
        }
        if self.dry_run {
            note(&format!("Would {verb} {what}."));
            return Ok(false);
        }
        confirmed(&format!("{verb} {what}?", verb = capitalised(verb)), self.yes, TRY_FIRST)
    }
}

/// Runs a statement, which returns the number of events that it has changed, on one batch of ids after the other, and
/// adds these numbers to `done`. Finished batches stay done; a signal ends the work after the current batch.
pub(super) async fn work_through(
    session: &Session,
    statement: &str,
    ids: &[Uuid],
    parameters: &[&(dyn ToSql + Sync)],
    interrupt: &Interrupt,
    done: &mut Done,
) -> Result<(), RunError> {
    let mut progress = Progress::new("working", i64::try_from(ids.len()).unwrap_or(i64::MAX));
    for batch in ids.chunks(BATCH) {
        if interrupt.code().is_some() {
            break;
        }
        let all: Vec<&(dyn ToSql + Sync)> =
            std::iter::once(&batch as &(dyn ToSql + Sync)).chain(parameters.iter().copied()).collect();
        let row = session.answer(session.client.query_one(statement, &all)).await.inspect_err(|_| {
            if done.done > 0 {
                note(&format!("{} done before this:", count(done.done, "event")));
            }
        })?;
        let number: i64 = row.try_get(0).map_err(|error| session.failed(error))?;
        let size = i64::try_from(batch.len()).unwrap_or(i64::MAX);
        done.done += number;
        done.changed += size - number;
        progress.advance(size);
    }
    Ok(())
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
