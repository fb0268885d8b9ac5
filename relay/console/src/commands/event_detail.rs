//! `events ID`: the history of one event, in order, and the events that it waits for or that wait for it.

use outbox_service::error::RunError;
use serde::Serialize;
use tokio_postgres::Error;
use uuid::Uuid;

use crate::{
    commands::filter::{Filter, Parameters},
    format::{Tone, count, escaped, fields},
    queries::{
        event::{Event, HELD_BY, Holder, OF_ITS_KEY},
        search::{self, Among, Order},
        session::{Session, took_too_long},
    },
    terminal::{
        Answer,
        output::{Output, note},
    },
};

/// Most events of a key that are counted.
const MOST_OF_KEY: i64 = 10_000;

/// An event, and its place among the events of its key.
#[derive(Debug, Serialize)]
pub(super) struct EventDetail {
    #[serde(flatten)]
    event: Event,
    /// The event that holds the key of this one, if one does.
    held_by: Option<Holder>,
    /// Pending events of the key that were made before this one; null without a key, or if they could not be counted.
    key_pending_before: Option<i64>,
    /// Pending events of the key that were made after this one; null as above.
    key_pending_after: Option<i64>,
}

/// Prints the detail of the event with this id, or that no such event exists.
pub(super) fn show(detail: Option<&EventDetail>, id: Uuid, output: &mut Output) -> Result<Answer, RunError> {
    let Some(detail) = detail else {
        note(&format!("There is no event {id}: it was never committed, or has been deleted."));
        return Ok(Answer::No);
    };
    if output.json {
        output.object(detail)?;
    } else {
        output.print(&describe(detail, output))?;
    }
    Ok(Answer::Yes)
}

/// Finds an event by its id.
pub(super) async fn find_event(session: &Session, id: Uuid, payload: bool) -> Result<Option<Event>, Error> {
    let filter = Filter::default();
    let parameters = Parameters { filter: &filter, status: None, ids: Some(&[id]), limit: 1 };
    let query = search::events(Among::Ids, payload, Order::NewestFirst);
    let row = session.client.query_opt(&query, &parameters.list()).await?;
    row.map(|row| Event::read(&row, payload)).transpose()
}

/// Finds an event, and its place among the events of its key.
pub(super) async fn find(session: &Session, id: Uuid, payload: bool) -> Result<Option<EventDetail>, RunError> {
    let failed = |error| session.failed(error);
    let Some(event) = find_event(session, id, payload).await.map_err(failed)? else {
        return Ok(None);
    };
    let mut detail = EventDetail { event, held_by: None, key_pending_before: None, key_pending_after: None };
    if detail.event.aggregate_id.is_none() {
        return Ok(Some(detail));
    }
    let this = id.to_string();
    let holder = session.client.query_opt(HELD_BY, &[&this]).await.map_err(failed)?;
    detail.held_by = holder.as_ref().map(Holder::read).transpose().map_err(failed)?;
    // No index leads to a key's pending events, so a large backlog may take too long to search.
    match session.client.query_one(OF_ITS_KEY, &[&this, &MOST_OF_KEY]).await {
        Ok(row) => {
            detail.key_pending_before = Some(row.try_get("before").map_err(failed)?);
            detail.key_pending_after = Some(row.try_get("after").map_err(failed)?);
        }
        Err(error) if took_too_long(&error) => {}
        Err(error) => return Err(failed(error)),
    }
    Ok(Some(detail))
}

fn describe(detail: &EventDetail, output: &Output) -> String {
    let event = &detail.event;
    let attempts =
        if event.attempts > 0 { format!(" after {}", count(event.attempts.into(), "attempt")) } else { String::new() };
    let replays =
        if event.replays > 0 { format!(", replayed {}", count(event.replays.into(), "time")) } else { String::new() };
    let head = format!("{} is {}{attempts}{replays}", event.id, output.paint(event.tone(), &event.status));
    let mut about = vec![
        ("topic", event.topic.clone()),
        ("exchange", event.exchange.clone().unwrap_or_else(|| "(the relay's)".to_owned())),
    ];
    let key = Some(event.key()).filter(|key| !key.is_empty());
    for (name, value) in [("type", &event.event_type), ("key", &key), ("correlation id", &event.correlation_id)] {
        about.extend(value.clone().map(|value| (name, value)));
    }
    about.push(("seq", event.seq.to_string()));
    let steps = steps(event);
    let steps: Vec<(&str, String)> = steps.iter().map(|(at, what)| (at.as_str(), what.clone())).collect();
    let mut text = format!("{head}\n{}\n{}", fields(&about), fields(&steps));
    for sentence in waits(detail) {
        text.push_str(&format!("\n{}\n", output.paint(Tone::Warning, &sentence)));
    }
    if event.body.is_some() {
        text.push_str(&format!("\n{}", body(event)));
    }
    text
}

/// Returns the steps of the event's history and its next one, each with its time.
fn steps(event: &Event) -> Vec<(String, String)> {
    let mut steps = vec![(event.created_at.clone(), "emitted".to_owned())];
    let said = event.last_error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let is_over = event.status != "PENDING";
    if let Some(first) =
        event.first_attempted_at.clone().filter(|first| event.last_attempted_at.as_ref() != Some(first))
    {
        steps.push((first, "first attempt that counted".to_owned()));
    }
    if let Some(last) =
        event.last_attempted_at.clone().filter(|last| !is_over || event.processed_at.as_ref() != Some(last))
    {
        let what = match (event.attempts, event.replays) {
            (0, 0) => "tried while the broker took nothing, which does not count",
            (0, _) => "tried, before it was replayed or while the broker took nothing",
            _ => "last tried",
        };
        steps.push((last, format!("{what}{said}")));
    }
    match (&event.processed_at, event.status.as_str()) {
        (Some(at), "SENT") => steps.push((at.clone(), "sent: the broker has confirmed it".to_owned())),
        (Some(at), status) => steps.push((at.clone(), format!("{status}{said}"))),
        (None, _) => {}
    }
    if let (Some(due), Some(at)) = (event.due(), &event.available_at) {
        steps.push((at.clone(), format!("to be sent, {due}")));
    }
    // All times come from the database, whose clock may have been set back.
    steps.sort_by(|(one, _), (other, _)| one.cmp(other));
    steps
}

/// Returns sentences about the events that this one waits for, and that wait for it. They contain no foreign text.
fn waits(detail: &EventDetail) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(Holder { id, status, .. }) = &detail.held_by {
        let what_to_do = if status == "FAILED" {
            format!("outbox-relay replay {id} delivers that one first, outbox-relay release {id} goes on without it")
        } else {
            "that one is tried again by itself".to_owned()
        };
        sentences.push(format!("It waits for {id} ({status}), which holds their key: {what_to_do}."));
    } else if let (Some(before @ 1..), "PENDING") = (detail.key_pending_before, detail.event.status.as_str()) {
        sentences.push(format!("{} of its key made before it and not sent yet; it leaves after them.", are(before)));
    }
    if detail.event.holds_key {
        sentences.push(match detail.key_pending_after {
            None => "It holds its key: later events with it wait.".to_owned(),
            Some(1) => "It holds its key: 1 event made after it waits.".to_owned(),
            Some(after) => format!("It holds its key: {} made after it wait.", count(after, "event")),
        });
    }
    sentences
}

fn are(number: i64) -> String {
    let more = if number >= MOST_OF_KEY { "at least " } else { "" };
    if number == 1 { "There is 1 event".to_owned() } else { format!("There are {more}{}", count(number, "event")) }
}

/// Formats headers and payload, for people.
pub(super) fn body(event: &Event) -> String {
    let Some(body) = &event.body else { return String::new() };
    let json = |value: &Option<Box<serde_json::value::RawValue>>| value.as_ref().map(|raw| raw.get().to_owned());
    let payload = json(&body.payload).or_else(|| body.payload_base64.clone().map(|text| format!("base64 {text}")));
    let content_type = body.content_type.clone();
    let parts = [("content type", content_type), ("headers", json(&body.headers)), ("payload", payload)];
    parts.into_iter().filter_map(|(name, value)| Some(format!("  {name:14}{}\n", escaped(&value?)))).collect()
}
