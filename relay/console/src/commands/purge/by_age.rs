//! Purge of old events, page after page of the table: it needs no index and no long transaction, and can be stopped at
//! any time.

use outbox_service::error::RunError;
use tokio_postgres::{Error, Row, Statement, error::SqlState, types::ToSql};

use super::{Done, Options};
use crate::{
    format::count,
    queries::{
        finished::{self, Deleted},
        session::Session,
    },
    terminal::{
        Answer,
        interrupt::Interrupt,
        output::{Output, Progress, TRY_FIRST, confirmed, note},
    },
};

/// Pages of the table that one statement reads: 2 MiB, some thousand events, some ten milliseconds.
const STEP: i32 = 256;

/// Tries of a step while the table is locked: half a minute, as `outbox.maintain()` does.
const TRIES: u32 = 60;

/// A purge of the events that were finished before these times.
struct Purge<'a> {
    session: &'a Session,
    sent_before: Option<&'a str>,
    failed_before: Option<&'a str>,
    /// Listens for signals once deletion has begun. Before, a signal ends the process in the usual way.
    interrupt: Option<Interrupt>,
}

impl Purge<'_> {
    /// Runs a statement on one part of the table after the other, and passes its rows to `take`. Returns the first
    /// error that concerns one part only, such as an unreadable page.
    async fn pass(
        &self,
        what: &'static str,
        statement: &str,
        mut take: impl FnMut(Row) -> Result<(), Error>,
    ) -> Result<Option<Error>, RunError> {
        let Self { session, .. } = self;
        let failed = |error| session.failed(error);
        // Pages that are added later contain no old events.
        let file = session.answer(session.client.query_one(finished::FILE, &[])).await?;
        let pages: i64 = file.try_get("pages").map_err(failed)?;
        let statement = session.answer(session.client.prepare(statement)).await?;
        let mut progress = Progress::new(what, pages);
        let mut of_a_step = None;
        let mut from = 0;
        while from < pages && self.interrupted().is_none() {
            match self.step(&statement, from).await? {
                Ok(row) => take(row).map_err(failed)?,
                Err(error) if finished::is_of_one_step(&error) => of_a_step = of_a_step.or(Some(error)),
                Err(error) => return Err(failed(error)),
            }
            progress.advance(i64::from(STEP));
            from += i64::from(STEP);
        }
        Ok(of_a_step)
    }

    /// Returns the exit code for the signal that has come, if any.
    fn interrupted(&self) -> Option<u8> {
        self.interrupt.as_ref().and_then(Interrupt::code)
    }

    async fn step(&self, statement: &Statement, from: i64) -> Result<Result<Row, Error>, RunError> {
        let parameters: [&(dyn ToSql + Sync); 4] = [&self.sent_before, &self.failed_before, &from, &STEP];
        let mut tries = 0;
        loop {
            tries += 1;
            match self.session.in_time(self.session.client.query_one(statement, &parameters)).await? {
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) && tries < TRIES => {}
                answer => return Ok(answer),
            }
        }
    }
}

pub(super) async fn run(session: &Session, options: &Options, output: &mut Output) -> Result<Answer, RunError> {
    let before = session.time_ago(options.older_than.unwrap_or_default()).await?;
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
        unread.await?.map_or(Ok(()), |error| Err(session.failed(error)))?;
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
    if let Some(error) = ended? {
        return Err(session.failed(error));
    }
    if let Some(code) = purge.interrupted() {
        note("Interrupted: what is deleted stays deleted, and the same command goes on with the rest.");
        return Ok(Answer::Interrupted(code));
    }
    let is_done = is_wanted && done.refused == 0;
    Ok(if is_done || options.dry_run || done.matched == Some(0) { Answer::Yes } else { Answer::No })
}
