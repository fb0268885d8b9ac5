//! Old events: page after page of the table, so that no index is needed, no transaction is long, and one may stop at any time.

use outbox_service::error::RunError;
use tokio_postgres::{Error, Row, Statement, error::SqlState, types::ToSql};

use super::{Done, Options};
use crate::{
    format::count,
    queries::{
        finished::{self, Deleted},
        session::Session,
        sql,
    },
    terminal::{
        Answer,
        interrupt::Interrupt,
        output::{Output, Progress, TRY_FIRST, confirmed, note},
    },
};

/// Pages of the table that one statement looks through: 2 MiB, some thousand events, some ten milliseconds.
const STEP: i32 = 256;

/// How often a step is tried while somebody has locked the table: half a minute, as `outbox.maintain()` does.
const TRIES: u32 = 60;

/// Which events are deleted: finished before these times.
struct Purge<'a> {
    session: &'a Session,
    sent_before: Option<&'a str>,
    failed_before: Option<&'a str>,
    /// Who ends it, once it deletes. Before that a signal ends the process as it does any other.
    interrupt: Option<Interrupt>,
}

impl Purge<'_> {
    /// Runs a statement on one part of the table after the other, and hands its rows to `take`. Returns the first error that other parts
    /// need not have, such as a page that cannot be read.
    async fn pass(
        &self,
        what: &'static str,
        statement: &str,
        mut take: impl FnMut(Row) -> Result<(), Error>,
    ) -> Result<Option<Error>, Error> {
        let client = &self.session.client;
        // Events that are written later are not old.
        let pages: i64 = client.query_one(finished::FILE, &[]).await?.try_get("pages")?;
        let statement = client.prepare(statement).await?;
        let mut progress = Progress::new(what, pages);
        let mut failed = None;
        let mut from = 0;
        while from < pages && self.interrupted().is_none() {
            match self.step(&statement, from).await {
                Ok(row) => take(row)?,
                Err(error) if is_of_this_step(&error) => failed = failed.or(Some(error)),
                Err(error) => return Err(error),
            }
            progress.advance(i64::from(STEP));
            from += i64::from(STEP);
        }
        Ok(failed)
    }

    /// The exit code for the signal that has come, if one has.
    fn interrupted(&self) -> Option<u8> {
        self.interrupt.as_ref().and_then(Interrupt::code)
    }

    async fn step(&self, statement: &Statement, from: i64) -> Result<Row, Error> {
        let parameters: [&(dyn ToSql + Sync); 4] = [&self.sent_before, &self.failed_before, &from, &STEP];
        let mut tries = 0;
        loop {
            tries += 1;
            match self.session.client.query_one(statement, &parameters).await {
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) && tries < TRIES => {}
                answer => return answer,
            }
        }
    }
}

/// Whether other parts of the table may fare better: a page cannot be read (classes XX and 58), a row takes too long.
fn is_of_this_step(error: &Error) -> bool {
    let Some(refusal) = error.as_db_error().filter(|refusal| refusal.severity() == "ERROR") else { return false };
    let class = refusal.code().code().get(..2);
    matches!(class, Some("XX" | "58")) || *refusal.code() == SqlState::QUERY_CANCELED
}

pub(super) async fn run(session: &Session, options: &Options, output: &mut Output) -> Result<Answer, RunError> {
    let failed = |error| session.failed(error);
    let seconds = i64::try_from(options.older_than.unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
    let now = session.client.query_one(&sql::fixed_time(), &[&"now", &seconds]).await;
    let before: String = now.and_then(|row| row.try_get(0)).map_err(failed)?;
    let of = |status| Some(before.as_str()).filter(|_| options.status().is_none_or(|wanted| wanted == status));
    let mut purge = Purge { session, sent_before: of("SENT"), failed_before: of("FAILED"), interrupt: None };
    let mut done = Done { dry_run: options.dry_run, before: Some(before.clone()), ..Done::default() };
    if options.dry_run || !options.yes {
        let mut old = 0;
        let unread = purge.pass("counting", finished::COUNT, |row| {
            old += row.try_get::<_, i64>("old")?;
            done.holding += row.try_get::<_, i64>("holding")?;
            Ok(())
        });
        unread.await.and_then(|unread| unread.map_or(Ok(()), Err)).map_err(failed)?;
        done.matched = Some(old);
        note(&format!("{} finished before {before}.", count(old, "event")));
        done.print_kept();
    }
    let question = format!("Delete {}?", count(done.matched.unwrap_or_default(), "event"));
    let is_wanted = !options.dry_run && done.matched != Some(0) && confirmed(&question, options.yes, TRY_FIRST)?;
    let mut ended = Ok(None);
    if is_wanted {
        purge.interrupt = Some(Interrupt::listen()?);
        done.holding = 0;
        let delete = finished::delete_before();
        let deleting = purge.pass("deleting", &delete, |row| {
            done.take(Deleted::read(&row)?);
            Ok(())
        });
        ended = deleting.await;
        done.print_deleted();
        done.print_kept();
    }
    if output.json {
        output.object(&done)?;
    }
    if let Some(error) = ended.map_err(failed)? {
        return Err(session.failed(error));
    }
    if let Some(code) = purge.interrupted() {
        note("Interrupted: what is deleted stays deleted, and the same command goes on with the rest.");
        return Ok(Answer::Interrupted(code));
    }
    let is_done = is_wanted && done.refused == 0;
    Ok(if is_done || options.dry_run || done.matched == Some(0) { Answer::Yes } else { Answer::No })
}
