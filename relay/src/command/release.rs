//! `release`: lets the events behind a failed one go on without it.

use super::{
    Answer,
    choice::{Choice, Done, work_through},
    format::count,
    output::{Output, note},
    session::Session,
    sql::{self, Among},
};
use crate::{config::Config, error::RunError};

/// Let the events that wait behind FAILED ones go on without them
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
}

pub(super) async fn carry_out(config: &Config, Options { mut choice }: Options) -> Result<Answer, RunError> {
    let session = Session::open(config, "release", choice.timeout).await?;
    choice.begin(&session).await?;
    let mut output = Output::new(choice.form);
    let ids = choice.find(&session, Among::Holding, None).await?;
    let mut done = Done { matched: ids.len(), done: 0, dry_run: choice.dry_run };
    if ids.is_empty() {
        note("No FAILED event that fits holds its key: nothing to release.");
    } else if choice.is_confirmed(&session, "release", &ids, &mut output).await? {
        done.done = work_through(&session, sql::RELEASE, &ids, &[]).await?;
        note(&format!("Released {}: what waited behind them goes on.", count(done.done, "event")));
    }
    if output.json {
        output.object(&done)?;
    }
    let is_all = done.matched > 0 && ids.len() >= choice.ids.len();
    Ok(if is_all && (done.dry_run || done.done > 0) { Answer::Yes } else { Answer::No })
}
