//! Purge of events by id. Each is deleted separately, so that an undeletable event does not keep the others.

use outbox_service::error::RunError;
use uuid::Uuid;

use super::{Done, Options};
use crate::{
    commands::{
        events,
        filter::{Filter, Parameters},
    },
    format::{count, escaped},
    queries::{
        event::Event,
        finished::DELETE_BY_ID,
        search::{self, Among, Order},
        session::Session,
    },
    terminal::{
        Answer,
        output::{Output, TRY_FIRST, confirmed, note},
    },
};

/// Events per transaction.
const BATCH: usize = 100;

/// Prints the finished events with these ids, and deletes them.
pub(super) async fn run(session: &Session, options: &Options, output: &mut Output) -> Result<Answer, RunError> {
    let failed = |error| session.failed(error);
    let filter = Filter::default();
    let parameters = Parameters { filter: &filter, status: options.status(), ids: Some(&options.ids), limit: i64::MAX };
    let query = search::events(Among::Ids, false, Order::OldestFirst);
    let rows = session.answer(session.client.query(&query, &parameters.list())).await?;
    let mut found = rows.iter().map(|row| Event::read(row, false)).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    found.retain(|event| event.status != "PENDING");
    let holding = found.iter().filter(|event| event.holds_key).count();
    let matched = i64::try_from(found.len()).unwrap_or(i64::MAX);
    if found.len() < options.ids.len() {
        let asked = count(i64::try_from(options.ids.len()).unwrap_or(i64::MAX), "event");
        note(&format!("Of {asked}, {matched} are there, finished, and of that status."));
        events::note_missing(&options.ids, &found.iter().map(|event| event.id).collect::<Vec<_>>());
    }
    if !output.json && !options.yes && !found.is_empty() {
        output.print(&events::list(&found, output.in_colour()))?;
    }
    let mut done = Done { matched: Some(matched), dry_run: options.dry_run, ..Done::default() };
    let question = format!("Delete {}?", count(matched, "event"));
    let mut ended = Ok(());
    if options.dry_run {
        done.holding = i64::try_from(holding).unwrap_or(i64::MAX);
        done.print_kept();
    } else if matched > 0 && confirmed(&question, options.yes, TRY_FIRST)? {
        ended = delete(session, options, &mut done).await;
        done.print_deleted();
    }
    if output.json {
        output.object(&done)?;
    }
    ended?;
    let is_all = found.len() == options.ids.len();
    let is_done = if options.dry_run { done.holding == 0 } else { done.deleted == matched };
    Ok(if is_all && is_done { Answer::Yes } else { Answer::No })
}

/// Deletes the finished events, and prints each that stays.
async fn delete(session: &Session, options: &Options, done: &mut Done) -> Result<(), RunError> {
    let failed = |error| session.failed(error);
    for batch in options.ids.chunks(BATCH) {
        let rows = session.answer(session.client.query(DELETE_BY_ID, &[&batch, &options.status()])).await?;
        for row in rows {
            let id: Uuid = row.try_get("event_id").map_err(failed)?;
            match row.try_get("outcome").map_err(failed)? {
                "deleted" => done.deleted += 1,
                "holding" => {
                    done.holding += 1;
                    note(&format!("{id} holds its key and may not be deleted. First: outbox-relay release {id}"));
                }
                "locked" => {
                    done.locked += 1;
                    note(&format!("{id} is locked by others. Purge it again later."));
                }
                "refused" => {
                    let because: String = row.try_get("because").map_err(failed)?;
                    note(&format!("{id} cannot be deleted: {}.", escaped(&because)));
                    done.refuse(1, Some((id, because)));
                }
                _ => {} // deleted meanwhile, PENDING again, or not matched at all
            }
        }
    }
    Ok(())
}
