//! `purge`: deletes old finished events, page after page of the table, so that no index is needed, no transaction is long, and one may
//! stop at any time.

use std::time::Duration;

use serde::Serialize;

use super::{
    Answer,
    filter::{length, word},
    format::count,
    output::{Form, Output, Progress, confirmed, note},
    session::Session,
    sql,
};
use crate::{
    config::Config,
    error::{Kind, RunError},
};

/// Pages of the table that one statement looks through: 2 MiB, some thousand events, some ten milliseconds.
const STEP: i64 = 256;

/// How long one step may take.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Delete events that were finished long ago
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How long ago an event must have become SENT or FAILED, as 12h, 7d or 4w
    #[arg(long, value_name = "TIME", value_parser = length)]
    older_than: Duration,
    /// Which events: SENT, FAILED, or both. One that has FAILED and is deleted can no longer be replayed
    #[arg(long, value_name = "STATUS", default_value = "SENT", ignore_case = true, value_parser = word(&["SENT", "FAILED", "BOTH"]))]
    status: String,
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
    /// Events that were finished before this time.
    before: String,
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
                    note(&format!("{} deleted before this:", count(total, "event")));
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

pub(super) async fn carry_out(config: &Config, options: Options) -> Result<Answer, RunError> {
    let session = Session::open(config, "purge", STEP_LIMIT).await?;
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
    let seconds = i64::try_from(options.older_than.as_secs()).unwrap_or(i64::MAX);
    let before: String = session
        .client
        .query_one(sql::FIXED_TIME, &[&"now", &seconds])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    let status = Some(options.status.as_str()).filter(|status| *status != "BOTH");
    let purge = Purge { session: &session, status, before: &before };
    let mut done = Done { matched: None, deleted: 0, dry_run: options.dry_run, before: before.clone() };
    if options.dry_run || !options.yes {
        let old = purge.pass("counting", &sql::count_finished(), true).await?;
        done.matched = Some(old);
        note(&format!("{} finished before {before}.", count(old, "event")));
    }
    let question = format!("Delete {}?", count(done.matched.unwrap_or_default(), "event"));
    let is_wanted = !options.dry_run && done.matched != Some(0) && confirmed(&question, options.yes)?;
    if is_wanted {
        done.deleted = purge.pass("deleting", &sql::delete_finished(), false).await?;
        note(&format!("Deleted {}.", count(done.deleted, "event")));
    }
    if output.json {
        output.object(&done)?;
    }
    Ok(if is_wanted || options.dry_run || done.matched == Some(0) { Answer::Yes } else { Answer::No })
}
