//! Spans of sampled events. A span lasts from the commit to the broker's answer; its parent is the span that emitted
//! the event, and its children are the spans that consume the message.
//!
//! This module knows no particular broker. The sink supplies the attributes that OpenTelemetry's conventions require
//! (<https://opentelemetry.io/docs/specs/semconv/messaging/>); their version is [`SCHEMA`](crate::traces::SCHEMA).

use std::{
    collections::HashMap,
    net::SocketAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use opentelemetry::{
    Context, KeyValue,
    trace::{Event as SpanEvent, Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt},
};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use outbox_core::{Event, Outcome};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Answer;
use crate::traces::{self, Traces};

/// Longest `tracestate` that is passed on, in bytes: the length that the standard requires.
const STATE_BYTES: usize = 512;

/// Longest reason in a span, in bytes.
const REASON_BYTES: usize = 255;

/// The spans of one sink. Dropping it ends the open spans as unanswered.
pub struct Spans {
    /// `None`: no collector is configured.
    tracer: Option<SdkTracer>,
    /// The attribute `messaging.system`.
    system: &'static str,
    /// Attributes that describe the broker's node.
    peer: Vec<KeyValue>,
    /// Spans of unanswered events with the times of publishing; no more than the events in flight.
    open: HashMap<Uuid, (Span, SystemTime)>,
}

impl Spans {
    /// The spans of a sink for the broker `system`.
    pub(crate) fn new(traces: &Traces, system: &'static str) -> Self {
        Self { tracer: traces.tracer(), system, peer: Vec::new(), open: HashMap::new() }
    }

    /// Sets the node to which the sink is connected.
    pub(super) fn connected(&mut self, host: &str, address: SocketAddr) {
        let port = i64::from(address.port());
        self.peer = vec![
            KeyValue::new("server.address", host.to_owned()),
            KeyValue::new("server.port", port),
            KeyValue::new("network.peer.address", address.ip().to_string()),
            KeyValue::new("network.peer.port", port),
        ];
    }

    /// Begins the span of an event that is published now, if the event is sampled. Returns the message's `traceparent`;
    /// `destination` returns the destination's name, and further attributes.
    pub(super) fn published<const N: usize>(
        &mut self,
        event: &Event,
        destination: impl FnOnce() -> (String, [(&'static str, String); N]),
    ) -> Option<Box<str>> {
        let tracer = self.tracer.as_ref()?;
        let parent = sampled(event)?;
        let (destination, details) = destination();
        let now = SystemTime::now();
        let committed_us = event.committed_at_us.unwrap_or(event.created_at_us);
        let committed = UNIX_EPOCH + Duration::from_micros(u64::try_from(committed_us).unwrap_or(0));
        let mut attributes = vec![
            KeyValue::new("messaging.system", self.system),
            KeyValue::new("messaging.operation.name", "publish"),
            KeyValue::new("messaging.operation.type", "send"),
            KeyValue::new("messaging.destination.name", destination.clone()),
            KeyValue::new("messaging.message.id", event.id.to_string()),
            KeyValue::new("outbox.attempt", i64::from(event.attempts).saturating_add(1)),
        ];
        let details = details.into_iter().filter(|(_, value)| !value.is_empty());
        attributes.extend(details.map(|(name, value)| KeyValue::new(name, value)));
        if let Some(id) = &event.correlation_id {
            attributes.push(KeyValue::new("messaging.message.conversation_id", id.as_str().to_owned()));
        }
        if let Some(bytes) = event.body.as_ref().ok().and_then(|body| i64::try_from(body.len()).ok()) {
            attributes.push(KeyValue::new("messaging.message.body.size", bytes));
        }
        attributes.extend_from_slice(&self.peer);
        let span = SpanBuilder::from_name(format!("publish {destination}"))
            .with_kind(SpanKind::Producer)
            .with_start_time(committed.min(now)) // the time is from another machine's clock, or set by an emitter
            .with_attributes(attributes)
            .with_events(vec![SpanEvent::new("outbox.published", now, Vec::new(), 0)])
            .start_with_context(tracer, &Context::new().with_remote_span_context(parent));
        let traceparent = traces::traceparent(span.span_context()).into_boxed_str();
        self.open.insert(event.id, (span, now));
        Some(traceparent)
    }

    /// Ends the span of an answered event.
    pub(super) fn answered(&mut self, answer: &Answer) {
        if self.open.is_empty() {
            return; // the usual case: no event is sampled
        }
        let Some(open) = self.open.remove(&answer.id) else { return };
        end(
            open,
            match &answer.outcome {
                Outcome::Delivered | Outcome::Found => None,
                Outcome::Behind | Outcome::Unread { is_behind: true, .. } => {
                    Some((answer.reason, "an earlier message of the key was not taken"))
                }
                Outcome::Rejected(error)
                | Outcome::Retry(error)
                | Outcome::Unavailable(error)
                | Outcome::Unread { reason: error, .. } => Some((answer.reason, error)),
            },
        );
    }

    /// Ends all open spans as unanswered: whether the broker has the messages is unknown.
    pub(super) fn lost(&mut self, why: &str) {
        for (_, open) in self.open.drain() {
            end(open, Some(("unanswered", why)));
        }
    }
}

fn end((mut span, published): (Span, SystemTime), error: Option<(&'static str, &str)>) {
    match error {
        None => span.set_status(Status::Ok),
        Some((kind, reason)) => {
            span.set_attribute(KeyValue::new("error.type", kind));
            span.set_status(Status::error(beginning(reason, REASON_BYTES).to_owned()));
        }
    }
    span.end_with_timestamp(SystemTime::now().max(published));
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.lost("the session ended before the broker had answered");
    }
}

/// The context of the span that emitted the event; `None`: the event is not sampled.
fn sampled(event: &Event) -> Option<SpanContext> {
    /// The headers of a trace, which count only if they are texts.
    #[derive(Deserialize)]
    struct Carried<'a> {
        #[serde(borrow)]
        traceparent: Option<&'a RawValue>,
        #[serde(borrow)]
        tracestate: Option<&'a RawValue>,
    }
    /// Reads a text without escapes, which a valid context does not need.
    fn text(value: &RawValue) -> Option<&str> {
        serde_json::from_str(value.get()).ok()
    }
    let carried: Carried<'_> = serde_json::from_slice(event.headers.as_ref()?).ok()?;
    let state = carried.tracestate.and_then(text).filter(|state| state.len() <= STATE_BYTES);
    let state = state.and_then(|state| state.parse().ok()).unwrap_or_default();
    traces::parse(text(carried.traceparent?)?, state).filter(SpanContext::is_sampled)
}

/// The beginning of the text, as many whole characters as fit into `bytes`.
fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}
