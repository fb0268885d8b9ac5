//! `purge`: deletes old finished events, page after page of the table, so that no index is needed, no transaction is long, and one may
//! stop at any time; or those with the ids that are given.

use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use super::{
    Answer,
    event::Event,
    events,
    filter::{Filter, Parameters, length, word},
    format::count,
    output::{Form, Output, Progress, TRY_FIRST, confirmed, note},
    session::{Grant, Session},
    sql::{self, Among, Order},
};
use crate::{
    config::Config,
    error::{Kind, RunError},
};

/// Pages of the table that one statement looks through: 2 MiB, some thousand events, some ten milliseconds.
const STEP: i64 = 256;

/// How long one step may take.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Delete events that were finished long ago, or those with these IDs
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Events, however long ago they were finished
    #[arg(value_name = "ID", conflicts_with = "older_than", required_unless_present = "older_than")]
    ids: Vec<Uuid>,
    /// How long ago an event must have become SENT or FAILED, as 12h, 7d or 4w
    #[arg(long, value_name = "TIME", value_parser = length)]
    older_than: Option<Duration>,
    /// Which events: SENT, FAILED, or both. One that has FAILED and is deleted can no longer be replayed [default: SENT; with IDs both]
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = word(&["SENT", "FAILED", "BOTH"]))]
    status: Option<String>,
    /// Only count
    #[arg(long)]
    dry_run: bool,
    /// Ask nothing, and do not count first
    #[arg(long, short = 'y')]
    yes: bool,
    #[command(flatten)]
    form: Form,
}

/// What was done.
#[derive(Debug, Serialize)]
struct Done {
    /// Events that were old enough; null where nobody counted.
    matched: Option<i64>,
    deleted: i64,
    dry_run: bool,
    /// Events that were finished before this time; null with ids.
    before: Option<String>,
}

impl Options {
    /// `None`: either.
    fn status(&self) -> Option<&str> {
        let otherwise = if self.ids.is_empty() { "SENT" } else { "BOTH" };
        Some(self.status.as_deref().unwrap_or(otherwise)).filter(|status| *status != "BOTH")
    }
}

/// Which events are deleted.
struct Purge<'a> {
    session: &'a Session,
    status: Option<&'a str>,
    before: &'a str,
}

impl Purge<'_> {
    /// Runs a statement on one part of the table after the other. Says what it counts, or how many rows it has deleted.
    async fn pass(&self, what: &'static str, statement: &str, counts: bool) -> Result<i64, RunError> {
        let client = &self.session.client;
        let failed = |error| self.session.failed(error);
        // Events that are written later are not old.
        let pages: i64 = client.query_one(sql::PAGES, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)?;
        let statement = client.prepare(statement).await.map_err(failed)?;
        let mut progress = Progress::new(what, pages);
        let mut total = 0;
        let mut from = 0;
        while from < pages {
            let to = from + STEP;
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&self.status, &self.before, &from, &to];
            total += if counts {
                let row = client.query_one(&statement, &parameters).await;
                row.and_then(|row| row.try_get::<_, i64>(0)).map_err(failed)?
            } else {
                let deleted = client.execute(&statement, &parameters).await.map_err(|error| {
                    if total > 0 {
                        note(&format!("{} deleted before this:", count(total, "event")));
                    }
                    failed(error)
                })?;
                i64::try_from(deleted).unwrap_or_default()
            };
            progress.advance(STEP);
            from = to;
        }
        Ok(total)
    }
}

pub(super) async fn carry_out(config: &Config, mut options: Options) -> Result<Answer, RunError> {
    let session = Session::open(config, "purge", Grant::Operate, STEP_LIMIT).await?;
    let mut output = Output::new(options.form);
    let failed = |error| session.failed(error);
    let may: bool =
        session.client.query_one(sql::MAY_DELETE, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)?;
    if !may && !options.dry_run {
        return Err(RunError::new(
            Kind::NotPermitted,
            format!("the role {:?} may not delete events", config.database_url.user()),
        )
        .hint("run it as the owner of outbox.events, or as the owner: GRANT SELECT, DELETE ON outbox.events TO …"));
    }
    options.ids.sort_unstable();
    options.ids.dedup();
    if !options.ids.is_empty() {
        return delete_ids(&session, &options, &mut output).await;
    }
    let seconds = i64::try_from(options.older_than.unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
    let before: String = session
        .client
        .query_one(&sql::fixed_time(), &[&"now", &seconds])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    let purge = Purge { session: &session, status: options.status(), before: &before };
    let mut done = Done { matched: None, deleted: 0, dry_run: options.dry_run, before: Some(before.clone()) };
    if options.dry_run || !options.yes {
        let old = purge.pass("counting", &sql::count_finished(), true).await?;
        done.matched = Some(old);
        note(&format!("{} finished before {before}.", count(old, "event")));
    }
    let question = format!("Delete {}?", count(done.matched.unwrap_or_default(), "event"));
    let is_wanted = !options.dry_run && done.matched != Some(0) && confirmed(&question, options.yes, TRY_FIRST)?;
    if is_wanted {
        done.deleted = purge.pass("deleting", &sql::delete_finished(), false).await?;
        note(&format!("Deleted {}.", count(done.deleted, "event")));
    }
    if output.json {
        output.object(&done)?;
    }
    Ok(if is_wanted || options.dry_run || done.matched == Some(0) { Answer::Yes } else { Answer::No })
}

/// Deletes the events with these ids that are finished. Shows them first.
async fn delete_ids(session: &Session, options: &Options, output: &mut Output) -> Result<Answer, RunError> {
    let failed = |error| session.failed(error);
    let filter = Filter::default();
    let parameters = Parameters { filter: &filter, status: options.status(), ids: Some(&options.ids), limit: i64::MAX };
    let query = sql::events(Among::Ids, false, Order::OldestFirst);
    let rows = session.client.query(&query, &parameters.list()).await.map_err(failed)?;
    let mut found = rows.iter().map(|row| Event::read(row, false)).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    found.retain(|event| event.status != "PENDING");
    let matched = i64::try_from(found.len()).unwrap_or(i64::MAX);
    if found.len() < options.ids.len() {
        let asked = count(i64::try_from(options.ids.len()).unwrap_or(i64::MAX), "event");
        note(&format!("Of {asked}, {matched} are there, finished, and of that status."));
    }
    if !output.json && !options.yes && !found.is_empty() {
        output.print(&events::list(&found, output.in_colour()))?;
    }
    let mut done = Done { matched: Some(matched), deleted: 0, dry_run: options.dry_run, before: None };
    let question = format!("Delete {}?", count(matched, "event"));
    if !options.dry_run && matched > 0 && confirmed(&question, options.yes, TRY_FIRST)? {
        let deleted =
            session.client.execute(sql::DELETE_IDS, &[&options.ids, &options.status()]).await.map_err(failed)?;
        done.deleted = i64::try_from(deleted).unwrap_or(i64::MAX);
        note(&format!("Deleted {}.", count(done.deleted, "event")));
    }
    if output.json {
        output.object(&done)?;
    }
    let is_all = found.len() == options.ids.len();
    Ok(if is_all && (options.dry_run || done.deleted == matched) { Answer::Yes } else { Answer::No })
}
