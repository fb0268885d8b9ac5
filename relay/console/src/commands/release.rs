//! `release`: lets the events behind a failed one be sent without it.

use outbox_service::{Config, error::RunError};

use crate::{
    commands::selection::{Done, Selection, work_through},
    format::count,
    queries::search::Among,
    terminal::{Answer, interrupt::Interrupt, output::note},
};

/// Releases the keys of these events, and returns how many held theirs.
const RELEASE: &str = "SELECT count(*) FILTER (WHERE outbox.release(id)) FROM unnest($1::uuid[]) AS id";

/// Let later events of a key pass the FAILED event that holds it
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
}

pub(super) async fn run(config: &Config, Options { mut selection }: Options) -> Result<Answer, RunError> {
    let (session, mut output) = selection.begin(config, "release").await?;
    let chosen = selection.choose(&session, &[(Among::Holding, None)]).await?;
    let ids: Vec<_> = chosen.into_iter().flat_map(|(_, ids)| ids).collect();
    let mut done = Done { matched: ids.len(), dry_run: selection.dry_run, ..Done::default() };
    let is_confirmed = !ids.is_empty() && selection.is_confirmed(&session, "release", &ids, &mut output).await?;
    let interrupt = Interrupt::listen()?; // before this line a signal ends the process in the usual way
    let mut ended = Ok(());
    if ids.is_empty() {
        note("No FAILED event that fits holds its key: nothing to release.");
    } else if is_confirmed {
        ended = work_through(&session, RELEASE, &ids, &[], &interrupt, &mut done).await;
        if ended.is_ok() {
            note(&format!(
                "Released {}: the later events of each key go on{}.",
                count(done.done, "event"),
                done.rest()
            ));
        }
    }
    selection.end(&done, ended, &interrupt, output)
}
