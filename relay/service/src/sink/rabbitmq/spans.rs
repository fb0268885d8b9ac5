//! Spans of sampled events: from the commit to the broker's answer, as a child of the span in which the event was
//! emitted, and parent of those that consume the message.
//!
//! Nothing here knows which broker it is: the sink brings what OpenTelemetry's conventions ask of one
//! (<https://opentelemetry.io/docs/specs/semconv/messaging/>), whose version is [`SCHEMA`](crate::traces::SCHEMA).

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
use outbox_core::Event;
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::traces::{self, Traces};

/// As much of a `tracestate` as the standard asks to be handed on; in bytes.
const STATE_BYTES: usize = 512;

/// As much of a reason as a span shows, in bytes: AMQP's limit for the broker's words.
const REASON_BYTES: usize = 255;

/// The spans of one sink. Those that are unanswered when it goes end as such.
pub(crate) struct Spans {
    /// `None`: nobody wants any.
    tracer: Option<SdkTracer>,
    system: &'static str,
    /// The broker's node.
    peer: Vec<KeyValue>,
    /// Of events that the broker has not answered, with the time of publishing: no more than may be in flight.
    open: HashMap<Uuid, (Span, SystemTime)>,
}

impl Spans {
    /// Of a sink for this `messaging.system`.
    pub(crate) fn new(traces: &Traces, system: &'static str) -> Self {
        Self { tracer: traces.tracer(), system, peer: Vec::new(), open: HashMap::new() }
    }

    /// There is a connection to this node.
    pub(super) fn connected(&mut self, host: &str, address: SocketAddr) {
        let port = i64::from(address.port());
        self.peer = vec![
            KeyValue::new("server.address", host.to_owned()),
            KeyValue::new("server.port", port),
            KeyValue::new("network.peer.address", address.ip().to_string()),
            KeyValue::new("network.peer.port", port),
        ];
    }

    /// An event is published now. If it is sampled, its span is open from here on; returns the `traceparent` that the
    /// message then carries. `destination` gives its name, and further attributes.
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
            .with_start_time(committed.min(now)) // it is another machine's clock, or what an emitter has written
            .with_attributes(attributes)
            .with_events(vec![SpanEvent::new("outbox.published", now, Vec::new(), 0)])
            .start_with_context(tracer, &Context::new().with_remote_span_context(parent));
        let traceparent = traces::traceparent(span.span_context()).into_boxed_str();
        self.open.insert(event.id, (span, now));
        Some(traceparent)
    }

    /// The broker has answered. `error` gives its `error.type` and the reason, if the event is not delivered.
    pub(super) fn answered(&mut self, id: Uuid, error: impl FnOnce() -> Option<(&'static str, String)>) {
        if self.open.is_empty() {
            return; // nearly always
        }
        if let Some(open) = self.open.remove(&id) {
            end(open, error());
        }
    }

    /// No more answers will come: whether the broker has the messages is not known.
    pub(super) fn lost(&mut self, why: &str) {
        for (_, open) in self.open.drain() {
            end(open, Some(("unanswered", why.to_owned())));
        }
    }
}

fn end((mut span, published): (Span, SystemTime), error: Option<(&'static str, String)>) {
    match error {
        None => span.set_status(Status::Ok),
        Some((kind, reason)) => {
            span.set_attribute(KeyValue::new("error.type", kind));
            span.set_status(Status::error(beginning(&reason, REASON_BYTES).to_owned()));
        }
    }
    span.end_with_timestamp(SystemTime::now().max(published));
}

impl Drop for Spans {
    fn drop(&mut self) {
        self.lost("the session ended before the broker had answered");
    }
}

/// The context of an event that is sampled.
fn sampled(event: &Event) -> Option<SpanContext> {
    /// Of all the headers. One of another type is no context.
    #[derive(Deserialize)]
    struct Carried<'a> {
        #[serde(borrow)]
        traceparent: Option<&'a RawValue>,
        #[serde(borrow)]
        tracestate: Option<&'a RawValue>,
    }
    /// Text without escapes: a valid context needs none.
    fn text(value: &RawValue) -> Option<&str> {
        serde_json::from_str(value.get()).ok()
    }
    let carried: Carried<'_> = serde_json::from_slice(event.headers.as_ref()?).ok()?;
    let state = carried.tracestate.and_then(text).filter(|state| state.len() <= STATE_BYTES);
    let state = state.and_then(|state| state.parse().ok()).unwrap_or_default();
    traces::parse(text(carried.traceparent?)?, state).filter(SpanContext::is_sampled)
}

/// As many whole characters as fit.
fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}
