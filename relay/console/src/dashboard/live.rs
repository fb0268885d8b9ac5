//! The figures that browsers and charts get each second.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream::unfold;
use outbox_service::{
    observe::{Readiness, State as RelayState, View},
    repeats::Reminder,
};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{Notify, watch},
    time::{MissedTickBehavior, interval},
};
use tokio_postgres::Row;
use tracing::warn;

use super::{
    Dashboard,
    refusal::{self, Refusal},
    samples::{KEPT_EVERY, Sample, Samples, number, quantile},
    summary::{expiring, summarize, without_database},
    who::Role,
};
use crate::queries::health::{self, Health};

/// Interval between two views of the relay.
const SECOND: Duration = Duration::from_secs(1);

/// Views over which rates and latencies are shown: where few events pass, most seconds have none.
const MINUTE: usize = 60;

/// Interval between two queries of the database.
const HEALTH_EVERY: Duration = Duration::from_secs(5);

/// Most browsers that listen at a time.
const MOST_STREAMS: usize = 100;

/// The latest figures, and the samples before.
#[derive(Debug, Default)]
pub(super) struct Live {
    updates: watch::Sender<Arc<str>>,
    seen: Mutex<Seen>,
    streams: AtomicUsize,
    /// Notified when the relay's state changes: the database's last answer then belongs to the earlier state.
    state_changed: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    samples: Samples,
    health: Option<Health>,
    /// The error of the last query, if it failed.
    health_error: Option<String>,
    /// Whether the database was to be queried, and the last query failed.
    is_unread: bool,
    /// When the last query was sent.
    asked_at: Option<Instant>,
}

impl Seen {
    /// Returns the database's answer, if it is not older than the relay's present state.
    fn health_since(&self, state_since: Instant) -> Option<&Health> {
        self.health.as_ref().filter(|_| self.asked_at.is_some_and(|at| at >= state_since))
    }
}

impl Live {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples the relay and queries the database, forever.
pub(super) async fn watch(dashboard: &Dashboard) {
    tokio::join!(watch_relay(dashboard), watch_database(dashboard));
}

async fn watch_database(dashboard: &Dashboard) {
    let mut ticks = interval(HEALTH_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reminder = Reminder::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = dashboard.live.state_changed.notified() => ticks.reset(),
        }
        let asked_at = Instant::now();
        let asked = match dashboard.reader() {
            Ok(reader) => {
                let read = |rows: &[Row]| rows.first().map(Health::read).transpose();
                reader.read(&health::with_codes(), &[Some(&dashboard.slot)], read).await
            }
            Err(refusal) => Err(refusal),
        };
        let mut seen = dashboard.live.seen();
        seen.asked_at = Some(asked_at);
        (seen.health, seen.health_error) = match asked {
            Ok(health) => (health, None),
            Err(refusal) => (None, Some(refusal.sentence().to_owned())),
        };
        seen.is_unread = seen.health_error.is_some() && dashboard.reader.is_some();
        if seen.health_error.is_none() {
            reminder.is_over();
        }
        // While the relay itself is not connected, it says so.
        if let Some(error) = &seen.health_error
            && seen.is_unread
            && dashboard.observed.view().database.is_some()
            && reminder.is_due(error, 0, asked_at)
        {
            let hint = "check dashboard_database_url, and that its role has outbox.grant_monitor()";
            warn!(target: "relay", error, hint, "the dashboard cannot read the database; trying again");
        }
    }
}

async fn watch_relay(dashboard: &Dashboard) {
    let mut ticks = interval(SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut minute = VecDeque::from([(dashboard.observed.view(), Instant::now())]);
    for second in 1_usize.. {
        ticks.tick().await;
        let (view, now) = (dashboard.observed.view(), Instant::now());
        if minute.back().is_some_and(|(before, _)| before.state_since != view.state_since) {
            dashboard.live.state_changed.notify_one();
        }
        let mut seen = dashboard.live.seen();
        let since = |before: Option<&(View, Instant)>| {
            let (before, at) = before?;
            Some(sample(before, &view, now.duration_since(*at), seen.health.as_ref()))
        };
        let (of_minute, of_step) = (since(minute.front()), since(minute.iter().nth_back(KEPT_EVERY - 1)));
        if second.is_multiple_of(KEPT_EVERY)
            && let Some(sample) = of_step
        {
            seen.samples.push(sample);
        }
        let figures = figures(&view, now, &of_minute.unwrap_or_default(), &seen);
        drop(seen);
        dashboard.live.updates.send_replace(figures.to_string().into());
        minute.push_back((view, now));
        if minute.len() > MINUTE {
            minute.pop_front();
        }
    }
}

fn sample(before: &View, view: &View, passed: Duration, health: Option<&Health>) -> Sample {
    let (counts, earlier) = (&view.figures.counts, &before.figures.counts);
    let figure = |count: i64| number(count.max(0).unsigned_abs());
    let rate = |now: u64, then: u64| number(now.saturating_sub(then)) / passed.as_secs_f64().max(0.1);
    Sample {
        at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        received: rate(counts.streamed + counts.scanned, earlier.streamed + earlier.scanned),
        sent: rate(counts.sent, earlier.sent),
        failed: rate(counts.failed, earlier.failed),
        p50: quantile(&earlier.commit_to_confirm, &counts.commit_to_confirm, 0.5),
        p99: quantile(&earlier.commit_to_confirm, &counts.commit_to_confirm, 0.99),
        pending: health.map(|health| figure(health.pending)),
        oldest: health.map(|health| health.oldest_pending_seconds.unwrap_or(0.0)),
        kept: health.and_then(|health| health.slot.kept_bytes).map(figure),
        behind: health.and_then(|health| health.slot.behind_bytes).map(figure),
    }
}

/// Returns the present figures, with rates and latencies of the last minute, and the latest sample of the charts.
fn figures(view: &View, now: Instant, minute: &Sample, seen: &Seen) -> Value {
    let expiring = expiring(view, SystemTime::now());
    let summary = summarize(&Readiness::of(view, now), seen.health_since(view.state_since), expiring.as_deref());
    let (level, words) = if seen.is_unread { without_database(summary) } else { summary };
    let state = RelayState::ALL.iter().find(|(state, _)| *state == view.state()).map(|(_, word)| *word);
    let named = |sample: &Sample| -> Map<String, Value> {
        sample.values().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    let mut figures = named(minute);
    let more = [
        ("sample", json!(seen.samples.latest().map(named))),
        ("level", json!(level.word())),
        ("words", json!(words)),
        ("state", json!(state)),
        ("state_for", json!(now.duration_since(view.state_since).as_secs_f64())),
        ("database", json!(view.database.as_ref().map(|database| &database.description))),
        ("sink", json!(view.broker.name)),
        ("broker", json!(view.sink.connected_to.as_ref().map(|broker| &broker.description))),
        ("in_flight", json!(view.figures.in_flight)),
        ("in_memory", json!(view.figures.in_memory)),
        ("memory_bytes", json!(view.figures.memory_bytes)),
        ("health", json!(seen.health)),
        ("health_error", json!(seen.health_error)),
    ];
    figures.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Value::Object(figures)
}

/// Returns the samples of the last hour.
pub(super) async fn history(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    dashboard.access.at_least(Role::Reader, &headers)?;
    Ok(refusal::json(&dashboard.live.seen().samples.columns()))
}

/// Sends the figures each second, as long as the browser listens and its user may read.
pub(super) async fn stream(State(dashboard): State<Arc<Dashboard>>, headers: HeaderMap) -> Result<Response, Refusal> {
    dashboard.access.at_least(Role::Reader, &headers)?;
    if dashboard.live.streams.fetch_add(1, Relaxed) >= MOST_STREAMS {
        dashboard.live.streams.fetch_sub(1, Relaxed);
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "Too many browsers look at this relay."));
    }
    let mut updates = dashboard.live.updates.subscribe();
    updates.mark_changed(); // the first figures are sent at once
    let listener = Listener { dashboard, headers };
    let events = unfold((updates, listener), async |(mut updates, listener)| {
        loop {
            updates.changed().await.ok()?;
            // The stream ends once the user has signed out, or the session has expired.
            listener.dashboard.access.at_least(Role::Reader, &listener.headers).ok()?;
            let figures = Arc::clone(&updates.borrow_and_update());
            if !figures.is_empty() {
                return Some((
                    Ok::<_, Infallible>(Event::default().event("figures").data(&*figures)),
                    (updates, listener),
                ));
            }
        }
    });
    let mut response = Sse::new(events).keep_alive(KeepAlive::default()).into_response();
    // Without this header nginx buffers the stream.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// One browser that receives the figures.
struct Listener {
    dashboard: Arc<Dashboard>,
    headers: HeaderMap,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.dashboard.live.streams.fetch_sub(1, Relaxed);
    }
}
