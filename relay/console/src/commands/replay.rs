//! `replay`: sends events again.

use outbox_service::{Config, error::RunError};
use tokio_postgres::types::ToSql;

use crate::{
    commands::{
        filter::word,
        selection::{Done, Selection, work_through},
    },
    format::count,
    queries::search::Among,
    terminal::{Answer, interrupt::Interrupt, output::note},
};

/// Replays the events of `$1` that still match, and returns their number. The filters are passed too, for
/// `outbox.audit`.
const REPLAY: &str = "SELECT outbox.replay_many(ids => $1::uuid[], status => $2::text::outbox.status,
    topic => $3, topic_like => $4, aggregate_type => $5, aggregate_id => $6, correlation_id => $7,
    created_from => $8::text::timestamptz, created_to => $9::text::timestamptz, error_like => $10)";

/// Send events again, with the same ids
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
    /// Which of them: FAILED (by an index) or SENT (reads the whole table) [default: FAILED; with IDs either]
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = word(&["FAILED", "SENT"]))]
    status: Option<String>,
}

pub(super) async fn run(config: &Config, options: Options) -> Result<Answer, RunError> {
    let Options { mut selection, status } = options;
    let (session, mut output) = selection.begin(config, "replay").await?;
    let (failed, sent) = ((Among::Failed, Some("FAILED")), (Among::All, Some("SENT")));
    let statuses = match status.as_deref() {
        Some("SENT") => vec![sent],
        None if !selection.ids.is_empty() => vec![failed, sent],
        _ => vec![failed],
    };
    let chosen = selection.choose(&session, &statuses).await?;
    let ids: Vec<_> = chosen.iter().flat_map(|(_, ids)| ids).copied().collect();
    let mut done = Done { matched: ids.len(), dry_run: selection.dry_run, ..Done::default() };
    let is_confirmed = !ids.is_empty() && selection.is_confirmed(&session, "replay", &ids, &mut output).await?;
    let interrupt = Interrupt::listen()?; // before this line a signal ends the process in the usual way
    let mut ended = Ok(());
    if ids.is_empty() {
        note("No event fits: nothing to replay.");
    } else if is_confirmed {
        for (status, ids) in &chosen {
            let filter = selection.filter.values();
            let parameters: Vec<&(dyn ToSql + Sync)> =
                std::iter::once(status as &(dyn ToSql + Sync)).chain(filter).collect();
            ended = work_through(&session, REPLAY, ids, &parameters, &interrupt, &mut done).await;
            if ended.is_err() {
                break;
            }
        }
        if ended.is_ok() {
            note(&format!("Replayed {}, to be sent again{}.", count(done.done, "event"), done.rest()));
        }
    }
    selection.end(&done, ended, &interrupt, output)
}
