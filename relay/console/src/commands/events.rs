//! `events`: lists events, or shows the detail of one.

use std::{collections::HashSet, pin::pin, time::Duration};

use futures_util::TryStreamExt;
use outbox_service::{Config, error::RunError};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::{
    commands::{
        event_detail,
        filter::{Filter, Parameters, word},
    },
    format::{Table, Tone},
    queries::{
        event::Event,
        search::{self, Among, Order},
        session::{Grant, Session, silent, took_too_long, within},
    },
    terminal::{
        Answer,
        output::{Form, Output, note},
        query_args::length,
    },
};

/// Time after the deadline until a server that does not answer is given up. The server itself ends a search at the
/// deadline.
const GRACE: Duration = Duration::from_millis(500);

/// Most events in a list without `--limit`, if no ids say how many.
const USUAL_LIMIT: i64 = 20;

/// List events, the newest first; with an ID, show that event's history
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Event whose history to show; several IDs make a list
    #[arg(value_name = "ID")]
    ids: Vec<Uuid>,
    /// Only events with this status; PENDING and FAILED are found by an index
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = word(&["PENDING", "SENT", "FAILED"]))]
    status: Option<String>,
    /// Only events that hold their key, so that its later events wait
    #[arg(long)]
    holding: bool,
    #[command(flatten)]
    filter: Filter,
    /// The oldest first
    #[arg(long)]
    oldest: bool,
    /// At most this many: 20 by default, or as many as there are IDs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    limit: Option<i64>,
    /// Show headers and payload too
    #[arg(long)]
    payload: bool,
    /// Search no longer than this, as 5s or 2m, and show what was found until then
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = length)]
    timeout: Duration,
    #[command(flatten)]
    form: Form,
}

impl Options {
    fn among(&self) -> Among {
        match self.status.as_deref() {
            _ if !self.ids.is_empty() => Among::Ids,
            _ if self.holding => Among::Holding,
            Some("PENDING") => Among::Pending,
            Some("FAILED") => Among::Failed,
            _ => Among::All,
        }
    }

    fn limit(&self) -> i64 {
        let by_default = if self.ids.is_empty() { USUAL_LIMIT } else { i64::MAX };
        self.limit.unwrap_or(by_default)
    }

    fn order(&self) -> Order {
        if self.oldest { Order::OldestFirst } else { Order::NewestFirst }
    }
}

pub(super) async fn run(config: &Config, mut options: Options) -> Result<Answer, RunError> {
    let needs = if options.payload { Grant::Operate } else { Grant::Monitor };
    let deadline = Instant::now() + options.timeout;
    let begun = within(options.timeout, config, async {
        let session = Session::open(config, "events", needs, options.timeout).await?;
        session.client.batch_execute(search::BY_INDEX).await.map_err(|error| session.failed(error))?;
        options.filter = std::mem::take(&mut options.filter).fix(&session).await?;
        session.end_at(deadline).await?;
        Ok(session)
    });
    let session = begun.await?;
    let mut output = Output::new(options.form);
    options.ids.sort_unstable();
    options.ids.dedup();
    if let [id] = *options.ids
        && options.status.is_none()
        && !options.holding
    {
        let found = timeout_at(deadline + GRACE, event_detail::find(&session, id, options.payload)).await;
        let detail = found.unwrap_or_else(|_elapsed| Err(silent(&config.database_url, options.timeout)))?;
        return event_detail::show(detail.as_ref(), id, &mut output);
    }
    let Found { events, ids, count, mut is_whole } = find(&session, &options, deadline + GRACE, &mut output).await?;
    if !events.is_empty() {
        output.print(&list(&events, output.in_colour()))?;
    }
    if options.payload {
        is_whole &= print_bodies(&session, &events, deadline + GRACE, &mut output).await?;
    }
    let (limit, wanted) = (options.limit(), options.ids.len());
    let is_cut = i64::try_from(count) == Ok(limit) && (wanted == 0 || count < wanted);
    if !is_whole {
        note(&format!(
            "Not all was looked at: the search was ended after {:?}. PENDING, FAILED, --holding and IDs are found by an index, anything \
             else by reading on from the newest event, or the oldest. Narrow the search, or allow more by --timeout.",
            options.timeout
        ));
    } else if is_cut && !output.is_closed() {
        note(&format!("There may be more: --limit {limit} ends the list."));
    } else if wanted == 0 && count == 0 {
        note("No event fits.");
    } else if !is_cut && !output.is_closed() {
        note_missing(&options.ids, &ids);
    }
    Ok(if is_whole && (is_cut || count >= wanted.max(1)) { Answer::Yes } else { Answer::No })
}

/// Names each of the `wanted` ids that is not among the `found`.
pub(super) fn note_missing(wanted: &[Uuid], found: &[Uuid]) {
    let found: HashSet<_> = found.iter().collect();
    for missing in wanted.iter().filter(|id| !found.contains(id)) {
        note(&format!("No event that fits has the id {missing}."));
    }
}

struct Found {
    /// Events that are not printed yet.
    events: Vec<Event>,
    ids: Vec<Uuid>,
    count: usize,
    /// Whether the search was complete.
    is_whole: bool,
}

/// Searches for events. As JSON, each is printed as it is found, so that none stay in memory.
async fn find(session: &Session, options: &Options, end: Instant, output: &mut Output) -> Result<Found, RunError> {
    let mut found = Found { events: Vec::new(), ids: Vec::new(), count: 0, is_whole: true };
    let ids = Some(options.ids.as_slice()).filter(|ids| !ids.is_empty());
    let parameters =
        Parameters { filter: &options.filter, status: options.status.as_deref(), ids, limit: options.limit() };
    let with_body = options.payload && options.form.is_json();
    let query = search::events(options.among(), with_body, options.order());
    let rows = match timeout_at(end, session.client.query_raw(&query, parameters.list())).await {
        Err(_elapsed) => return Ok(Found { is_whole: false, ..found }),
        Ok(Err(error)) if took_too_long(&error) => return Ok(Found { is_whole: false, ..found }),
        Ok(rows) => rows.map_err(|error| session.failed(error))?,
    };
    let mut rows = pin!(rows);
    while !output.is_closed() {
        let Ok(next) = timeout_at(end, rows.try_next()).await else {
            found.is_whole = false;
            break;
        };
        match next {
            Ok(None) => break,
            Err(error) if took_too_long(&error) => {
                found.is_whole = false;
                break;
            }
            Err(error) => return Err(session.failed(error)),
            Ok(Some(row)) => {
                let event = Event::read(&row, with_body).map_err(|error| session.failed(error))?;
                found.count += 1;
                if ids.is_some() {
                    found.ids.push(event.id);
                }
                if options.form.is_json() {
                    output.object(&event)?;
                } else {
                    found.events.push(event);
                }
            }
        }
    }
    Ok(found)
}

/// Prints headers and payload of each of these events, which stand below the table. One is in memory at a time: a list
/// of large ones would not fit beside a relay. Returns whether all were read in time.
async fn print_bodies(
    session: &Session,
    events: &[Event],
    end: Instant,
    output: &mut Output,
) -> Result<bool, RunError> {
    for Event { id, .. } in events {
        if output.is_closed() {
            break;
        }
        match timeout_at(end, event_detail::find_event(session, *id, true)).await {
            Err(_elapsed) => return Ok(false),
            Ok(Err(error)) if took_too_long(&error) => return Ok(false),
            Ok(Err(error)) => return Err(session.failed(error)),
            Ok(Ok(None)) => note(&format!("The event {id} has been deleted meanwhile.")),
            Ok(Ok(Some(event))) => output.print(&format!("\n{id}\n{}", event_detail::body(&event)))?,
        }
    }
    Ok(true)
}

/// Formats events as a table.
pub(super) fn list(events: &[Event], in_colour: bool) -> String {
    let mut table = Table::new(&["ID", "STATUS", "AGE", "TOPIC", "KEY", "ATTEMPTS", "LAST ERROR"]);
    for event in events {
        let status = match (event.holds_key, event.due()) {
            (true, _) => format!("{}, holds key", event.status),
            (false, Some(due)) => format!("{}, {due}", event.status),
            (false, None) => event.status.clone(),
        };
        table.row(vec![
            (event.id.to_string(), Tone::Plain),
            (status, event.tone()),
            (event.age(), Tone::Plain),
            (event.topic.clone(), Tone::Bold),
            (event.key(), Tone::Plain),
            (event.attempts.to_string(), Tone::Plain),
            (event.last_error.clone().unwrap_or_default(), Tone::Plain),
        ]);
    }
    table.show(in_colour)
}
